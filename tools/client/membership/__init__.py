"""A member of a consumer group, without I/O.

member         what all members have in common: settings, tasks, requests
classic        a member of the classic protocol
consumer       a member of the new protocol (KIP-848)
assignors      how the leader of a classic group assigns partitions
group_session  sends a member's requests when they are due
"""
