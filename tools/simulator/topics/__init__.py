"""Topics that only some seeds have, each with clients, faults and promises of its own.

unreplicated  partitions with one replica, and their moves
recoveries    a partition that loses most of its replicas, and goes on in a new generation
evictions     a partition that forgets producers, because of their number or their silence
"""
