"""Classic groups: their members assign partitions among themselves.

group              join, sync, heartbeat, leave
members            the members: their protocols, the leader, the ones that are waited for
consumer_protocol  subscriptions and assignments inside the bytes of JoinGroup and SyncGroup
"""
