"""What actors say to each other: declarations with wire numbers, and the addresses at which actors are found.

raft         the wire numbers of Raft's messages (log/raft/messages.py)
replica      what a replica is asked: appends, reads, offsets, moves
controller   what a controller is asked; its operations are in log/machines/metadata/plans.py
coordinator  what coordinators of groups and transactions are asked
process      what the launcher and its brokers tell each other
"""
