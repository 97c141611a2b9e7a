"""Groups of the new protocol (KIP-848): one heartbeat does it all, and the coordinator assigns.

group           members join, stay, acknowledge and leave
heartbeat       what a heartbeat must be like
member          a member: what it subscribes to, has, and has acknowledged
reconciliation  a member's next step towards its target assignment
epochs          when the group's epoch grows, and the target assignment of that epoch
epoch_history   how long each epoch took to reach all members
state           the group as its records make it
records         the records by which it changes
description     a group as ConsumerGroupDescribe shows it
assignors       range, round robin and uniform
uniform         the uniform assignor: even and sticky
subscriber      a member as assignors see it
assignment      sets of partitions
"""
