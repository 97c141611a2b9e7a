"""Garbage at a live cluster: `python -m tools.fuzz --seconds 180`.

A cluster of three brokers is started as a user would. Attackers send them requests of every API that they serve, in
every version, whole and damaged, small and with very many elements (requests.py, mutations.py, attackers.py), while
good clients write and read beside them (good_clients.py). In the end the brokers must be the same processes as at the
start, their memory and descriptors level, and their logs free of tracebacks; no good client may have seen an error, not
even that a partition has another leader; and no turn may have held a broker's loop for more than 50 ms of processor
time (victim.py, run.py).

A seed makes the same garbage again, though never at the same instants.
"""
