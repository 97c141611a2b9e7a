"""Kafka clients beside each other's brokers: `python -m tools.bench produce|fetch|latency`.

The client is confluent-kafka, so any broker that speaks Kafka can be measured (`--against HOST:PORT`). Beside ours runs
librdkafka's mock cluster, which lives in the client's own process, keeps its records in memory and replicates nothing.

contestants   the clusters that are measured
produce       records a second into each
consume       records a second out of each
cold          a log that is not in memory, beside plain sendfile
transactions  transactions into each
crowd         many members of groups on one thread
"""
