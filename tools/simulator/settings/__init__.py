"""What one seed stands for. Each part draws from a generator of its own, so that a new one changes no old seed.

seed          the settings of a run, and how a seed chooses them
faults        the names of the faults, and in which share of the seeds some of them are
choices       what only some seeds have
groups        the consumer groups of a seed
transactions  the transactional clients of a seed
replacing     constants and functions of production that are others while a run lasts
layout        names of topics, files and nodes; addresses of replicas
"""
