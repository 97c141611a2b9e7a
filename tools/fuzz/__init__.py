"""Garbage at a live cluster: `python -m tools.fuzz --seconds 180`.

A cluster of three brokers is started as a user would. Attackers send them requests of every API that they serve, in
every version, whole and damaged, small and with very many elements, while good clients write and read beside them. At
the end the brokers must be the same processes as at the start, their memory and descriptors must not have grown, and
their logs must be free of tracebacks; no good client may have seen an error, not even that a partition has another
leader; and no turn may have held a broker's loop for more than 50 ms of processor time.

A seed makes the same garbage again, though never at the same instants.

run           the cluster, the attackers and the good clients, and the verdict
attackers     connections that send garbage
requests      requests of every API, small and large
mutations     damage
good_clients  well-behaved clients, which must not notice the attack
victim        the attacked cluster: processes, memory, descriptors, log lines
"""
