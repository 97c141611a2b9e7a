"""Transactions, from the client's side.

transaction  a producer's transaction, without I/O
coordinator  takes a transaction to its coordinator
admin        which transactions there are, which hang and why: `Admin.transactions`
"""
