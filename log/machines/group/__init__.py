"""Consumer groups: what the records of one partition of __consumer_offsets make. Pure, see ../coordination.py.

machine     every group of the partition: finds the group of a request, lists, describes, deletes, expires
group       what classic groups and groups of the new protocol have in common
classic     groups whose members assign partitions among themselves
consumer    groups whose coordinator assigns partitions (KIP-848)
migration   groups on their way from one protocol to the other
offsets     committed offsets
rebalances  why a group rebalanced, the last times
facts       a group as it is described to people
config      Kafka's settings
"""
