"""How a producer sends batches and ends transactions.

batch                    a batch, and the delivery of each of its records
partition_queue          the batches of one partition, in order, with their sequences
sender                   sends batches to the leaders of their partitions
transaction              a producer's transaction, without I/O
transaction_coordinator  a transaction's requests to its coordinator
"""
