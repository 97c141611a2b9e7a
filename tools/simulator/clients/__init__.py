"""Clients on nodes of their own, linked to every broker.

client            writers and readers of plain partitions, with the replicas' own messages
pipelined_writer  a writer with several batches under way
administrators    clients that create, change, move and delete topics
streams           TCP connections on simulated links, to the real connection actors
kafka_client      a client that speaks Kafka's protocol over such streams
"""
