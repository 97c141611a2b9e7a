"""`python -m tools.cli COMMAND`: one module per command.

dump_log.py   dump-log: print and check segment files, indexes and small files of a log, ours or Apache Kafka's
topics.py     topics: list, describe, make, change and delete topics
groups.py     groups: list, describe, reset and delete them
transactions.py  transactions: list, describe, abort, and find those that hang
brokers.py    brokers: who they are, what each keeps and leads
move.py       move: a partition, to other brokers
drain.py      drain: everything, away from a broker
produce.py    produce: lines of stdin, as records
consume.py    consume: records, as lines
output.py     tables and colours in a terminal, plain text in a pipe
"""
