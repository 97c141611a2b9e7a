"""Clients of any Kafka cluster, on Kafka's own protocol, and of ours in newline JSON.

producer           records in, batches out, in order and once each
sender             takes batches to the leaders of their partitions
batches            batches on their way to a partition
consumer           records out, of given partitions or of a group's
reading            what a consumer reads: fetches, positions, its part in a group
membership         a member's part in its group, without I/O
transactions       a producer's transaction, and the administration of transactions
prepared           ends transactions that another process prepared (KIP-939)
admin              topics, configs, records, leaders, moves
groups             administration of groups: `Admin.groups`
group_offsets      how far a group has read: requests and answers
offsets            offsets at a time or at an end of a log
last_record        the last record of a kind in a partition
metadata           brokers, topics and leaders, as values
cluster            a picture of the cluster that is kept up to date
coordinator        the coordinator of a group or a transactional id: found and asked
network            the thread of a client, and its connections
json_client        a blocking client of newline JSON
json_conversation  what such a client says, and when it says it again
errors             what can go wrong, and what each error code asks a client to do
"""
