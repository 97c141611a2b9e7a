"""`python -m tools.cli COMMAND`: one module per command.

dump_log.py   dump-log: print and check segment files, indexes and small files of a log, ours or Apache Kafka's
"""
