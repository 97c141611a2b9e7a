"""Transactions of a run.

client            clients that follow a script, ask coordinators and leaders, and start again
transactor        the steps of a transaction
producer          producers of transactions over several partitions
copier            consume, transform, produce: exactly once
reader            readers, with each isolation level
passing_producer  producers that write to topics which come and go
passing_topics    topics that come and go, and what is checked of them
view              what is committed of transactions, and what must not be found in it
world             all transactions of a run, and when they are done
faults            faults at coordinators, and markers that are repeated or late
late_requests     requests that arrive after the end of their transaction
late_vouching     a coordinator's answer that arrives after its successor ended the transaction
forged_markers    markers that no coordinator sent
"""
