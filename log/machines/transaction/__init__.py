"""Transactions: what the records of one partition of __transaction_state make. Pure, see ../coordination.py.

machine      every transactional id of the partition: finds the one of a request, times out, expires, asks for markers
transaction  one transactional id: who may write now, and what its transaction is up to
states       the states of a transaction, and which may follow which
beginning    InitProducerId: who gets which producer id and epoch
ending       EndTxn: when a transaction may end, and what a retry is told
inspection   DescribeTransactions, ListTransactions
effects      records, answers, markers to write
config       Kafka's settings
"""
