"""The simulated machines, and what runs on them.

cluster        brokers that start, die and are linked; their leaders and metadata
host           one machine: a disk that outlives processes
background     background threads on virtual time
damaged_votes  faults of the vote journal at the start of a process
failures       failures of actors, found in the log of the brokers
settled        what every broker must have and know once everything has healed
"""
