"""How long the largest valid request of each API holds a broker's loop: `python -m tools.holds`.

A cluster with many topics and partitions is started, each broker in a process of its own with a stopwatch beside its
actors. One client sends the largest request of each API, and the table names the longest step of a broker's loop
meanwhile, in milliseconds of processor time and of wall time. A step longer than 50 ms of processor time is a failure.

run        the cluster, the requests, and the table
largest    the largest valid request of each API
stopwatch  measures the steps of a broker's loop
"""
