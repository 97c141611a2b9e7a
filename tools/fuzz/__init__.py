"""Garbage at a live broker: `python -m tools.fuzz --seconds 180`.

A cluster of one broker is started as a user would. Attackers send it requests of every API that it serves, in every
version, whole and damaged (requests.py, mutations.py, attackers.py), while good clients write and read beside them
(good_clients.py). In the end the broker must be the same process as at the start, its memory and descriptors level,
its log free of tracebacks, and no good client may have seen an error (victim.py, __main__.py).

A seed makes the same garbage again, though never at the same instants.
"""
