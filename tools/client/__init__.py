"""Clients of any Kafka cluster, on Kafka's own protocol, and of ours in newline JSON.

producer        records in, batches out, in order and once each
consumer        records out, of given partitions or of a group's
admin           topics, configs, records, leaders, moves
prepared        ends transactions that another process prepared (KIP-939)
offsets         offsets at a time or at an end of a log
group_offsets   how far a group has read: requests and answers
metadata        brokers, topics and leaders, as values
errors          what can go wrong, and what each error code asks a client to do
writing         batches and transactions on their way to the brokers
reading         fetches, positions, a consumer's part in a group
membership      a member's part in its group, without I/O
administration  administration of groups and transactions
network         the thread of a client, its connections, its picture of the cluster
json_client     a blocking client of newline JSON
addresses       addresses of brokers, as users write them
"""
