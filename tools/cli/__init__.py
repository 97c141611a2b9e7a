"""`python -m tools.cli COMMAND`: a module for each command, and what they share.

topics            topics: list, describe, create, change, delete, recover
recovery          `topics recover`: partitions that lost their majority
groups            groups: list, describe, reset, delete
offset_plan       where `groups reset` sets the offsets of a group
transactions      transactions: list, describe, abort, find those that hang
brokers           brokers: what each of them keeps and leads
move              move: a partition, to other brokers
drain             drain: everything, away from a broker
produce           produce: lines of stdin, as records
consume           consume: records, as lines
group_reader      records as a member of a group prints and commits them
dump_log          dump-log: segments, indexes and small files, checked
recover_metadata  recover-metadata: a stopped cluster that lost its majority
output            tables and colours in a terminal, plain text in a pipe
"""
