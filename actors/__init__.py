"""Everything alive: the actors of brokers, the runtime that runs them, and the processes that they are spread over.

Imports go down this list, and never up.

cluster       the command `python -m actors.cluster cluster.toml`
harness       the same cluster inside a test or a script
process       launcher and broker processes: formation, preflight checks, restarts
broker        one broker: how its actors start, hand over and stop
serving       the port: listener, connections, Kafka's protocol, newline JSON
control       controllers: the metadata log and its operations
coordination  coordinators of consumer groups and of transactions
partition     replicas of partitions: appends, reads, cleaning, and their hosting
raft          a Raft member as an actor, and what the actors of a broker share
messages      what these actors say to each other
cluster_file  cluster.toml, and what a broker knows from it
runtime       actors, mailboxes, the scheduler, timers, links between processes
"""
