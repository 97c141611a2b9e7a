"""Transactions: what the records of one partition of __transaction_state make. Pure, see ../coordination.py.

machine       every transactional id of the partition: finds the one of a request, times out, expires, asks for markers
transaction   one transactional id: which producer may write now, and the state of its transaction
states        the states of a transaction, and which may follow which
beginning     InitProducerId: which producer id and epoch a producer gets
ending        EndTxn: when a transaction may end, and the answer to a retry
inspection    DescribeTransactions, ListTransactions
producer_ids  the producer ids that a coordinator may give out
effects       records, answers, markers to write
config        Kafka's settings
"""
