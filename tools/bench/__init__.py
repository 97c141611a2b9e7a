"""Measurements, each beside the plain thing that does the same in the same run: only the ratios mean anything.

`python -m tools.bench NAME` runs one of them.

actors        the actor runtime beside pykka's threads and a raw trio socketpair
peers         the other side of that measurement
log           the partition log beside bare system calls
replication   replicated appends, failovers, idle partitions, scans
control       topics made, kept and deleted while others are written to
produce       records a second into each cluster
fetch         records a second out of each cluster
latency       one record at a time
groups        rebalances, commits, idle groups
transactions  transactions a second, and what they cost
wire          clients and clusters that are measured beside each other
spark         rows a second into Spark
processes     processor time and memory of brokers' processes
report        rows, the best of several rounds, and the table they make
"""
