"""Clients of any Kafka cluster in Kafka's own protocol, and of Barnabas in newline JSON.

producer        the producer: records in order and exactly once, transactions
consumer        the consumer: of given partitions, or as a member of a group
admin           topics, configs, records, leaders, moves
prepared        ends transactions that another process prepared (KIP-939)
offsets         ListOffsets: offsets by time, and at the ends of a log
group_offsets   committed offsets: requests and answers
metadata        brokers, topics and leaders, as values
errors          the errors of clients, and how a client reacts to each error code
writing         how a producer sends batches and ends transactions
reading         how a consumer fetches, keeps positions and commits
membership      a member of a consumer group, without I/O
administration  administration of groups and transactions
network         the thread of a client, its connections and its metadata
json_client     a blocking client of newline JSON
addresses       addresses of brokers, as users write them
"""
