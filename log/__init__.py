"""Logs and what they mean: Kafka's segment format, Raft, state machines. Pure: no sockets, no loop, no threads.

disk           what a log asks of a disk: the real one, and one in memory that fails on purpose
segment        one segment: batches, indexes, epochs, producers; which segments may go
recovery       from a directory to a log: small files, scans, losses
partition      the log of one partition, and what may be appended to it
compaction     of each key, only the newest record stays
raft           consensus alone: no clock, no I/O
replica        a Raft node and its log, driven together; the vote journal
machines       state machines: metadata, consumer groups, transactions
settings       the table of all settings
topic_configs  the configs of a topic: checked, with the defaults that the brokers give
config         the settings of one log, as values
slices         long work in slices
errors         what can go wrong with a log
"""
