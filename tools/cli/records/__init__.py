"""Commands that send and print records.

produce       produce: send lines of stdin as records
consume       consume: print records as lines
group_reader  consume --group: print and commit as a member of a group
"""
