"""Raft groups as actors: what replicas of partitions and controllers have in common, and what a broker shares for them.

raft_actor        a member of a Raft group, driven by messages, links, timers and syncs
spec              what a member is to be: its Raft group, its peers, its settings
replication       how far a leader's records are replicated: in-sync replicas, holders of an end
read_index_waits  questions to a leader that wait until a majority confirms that it leads
elections         how many elections one process has under way
heartbeats        `heartbeats@N`: one heartbeat between two processes for all Raft groups that they share
leadership        which broker leads which Raft group, as far as this broker has heard
pulse             whether this process got no processor for a while
flusher           `flusher@N`: makes votes and logs durable, many with one sync
last_syncs        the syncs of a broker that stops
background        blocking work on a thread per disk
calendar          whether the wall clock can be believed
exclusive_work    long work of which a broker has one piece under way
machine_boot      names the boot of the machine
context           what the actors of one broker share
"""
