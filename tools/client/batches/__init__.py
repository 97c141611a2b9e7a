"""Batches on their way to a partition.

batch            a batch, and what the sender of each record sees of it
partition_queue  the batches of one partition, in order, with their sequences
"""
