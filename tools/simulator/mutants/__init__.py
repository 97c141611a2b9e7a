"""Planted bugs. Each replaces a piece of production code for one run; a simulator that misses one is too weak.

mutant        what is replaced, and under which circumstances that comes to light
catalog       all of them, by name
raft          elections and replication
log           logs, and what a replica answers from them
metadata      controllers, topics, moves
groups        consumer groups and their coordinators
transactions  transactions, their coordinators, and what partitions and readers make of them
recoveries    what replicas make of a new generation
"""
