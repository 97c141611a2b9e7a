"""Batches and transactions on their way to the brokers.

batch                    a batch, and what the sender of each record sees of it
partition_queue          the batches of one partition, in order, with their sequences
sender                   takes batches to the leaders of their partitions
transaction              a producer's transaction, without I/O
transaction_coordinator  takes a transaction to its coordinator
"""
