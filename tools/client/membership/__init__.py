"""A member's part in its group, without I/O.

member         what a member says and is told
classic        a member of the classic protocol
consumer       a member of the new protocol (KIP-848)
assignors      how the leader of a classic group shares partitions among its members
group_session  keeps a member in its group: says what it wants said, when it is due
"""
