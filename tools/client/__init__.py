"""Clients of a cluster: of any Kafka cluster, on Kafka's own protocol, and of ours in newline JSON.

errors                 what can go wrong, and what each of Kafka's error codes asks a client to do
loop                   the one thread of a client: sockets, timers, plain functions
connection             one connection: versions agreed on, requests pipelined
broker                 the way to one broker, over one connection after another
metadata               brokers, topics and leaders, as values; cluster keeps them up to date
producer               records in; batch and partition_queue hold them in order, sender takes them to the leaders
consumer               records out: reading is where it stands; fetcher and fetch_session bring them, fetched shows them
subscriber             a consumer's part in its group that its user sees; group_session the part that goes on meanwhile
membership             what a member says and is told, without I/O: classic_membership, consumer_membership, assignors
coordinator            finds a group's and asks it; committer commits there; group_offsets is what they say
last_record            the last record of a kind in a partition
transaction            a producer's transaction, without I/O; transactions takes it to its coordinator
prepared               ends transactions that another process prepared
admin                  topics, configs, records, leaders, moves; groups are its groups, transaction_admin its
                       transactions; offsets asks for those at a time
json_client            newline JSON, blocking; trio_json_client: the same for trio
json_conversation      what both say to a broker, and when they say it again
"""
