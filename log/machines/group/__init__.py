"""Consumer groups: what the records of one partition of __consumer_offsets make. Pure, see ../coordination.py.

machine             every group of the partition: finds the group of a request, lists, describes, deletes, expires
group               what classic and new groups have in common
classic_group       a group whose members assign among themselves: join, sync, heartbeat, leave
classic_members     its members: what they speak, who leads, who is waited for
consumer_group      a group whose assignment is made here (KIP-848): one heartbeat does it all
consumer_heartbeat  what such a heartbeat must be like
consumer_member     one of its members: what it wants, what it has, how far it has come
reconciliation      a member's next step from what it has to what it shall have
consumer_epochs     when the group's epoch grows, and what everybody shall have in it
consumer_state      the group as its records make it; consumer_records writes them
consumer_description  what ConsumerGroupDescribe tells of it
epoch_history       how long its epochs took to reach everybody
assignors           range, round robin and uniform, which is in uniform; subscriber is a member as they see it
assignment          sets of partitions
classic_speakers    members of the classic protocol in a group of the new one
migration           groups go over from one protocol to the other and back
offsets             how far groups have read, and what open transactions hold back
offset_requests     commit, fetch and delete offsets; those that nobody needs any more
marker_guards       has a transaction ended since its coordinator was asked?
facts               a group as people look at it
consumer_protocol   subscriptions and assignments inside classic groups' bytes
rebalances          why a group rebalanced, the last times
config              Kafka's settings
"""
