"""The messages of actors, with their wire numbers, and the addresses of actors.

raft         the wire numbers of Raft's messages (log/raft/messages.py)
replica      to replicas: appends, reads, offsets, moves
controller   to controllers; the operations are in log/machines/metadata/plans.py
coordinator  to the coordinators of groups and transactions
process      between the launcher and its brokers
"""
