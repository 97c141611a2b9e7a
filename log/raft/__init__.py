"""Raft over a partition log: the algorithm alone, no clock, no I/O.

The contract between a node and whoever drives it:

    node.step(message, now) / node.tick(now) / node.appended(...) / node.flushed(...)
    ready = node.take_ready()
    1. persist   ready.begin, ready.truncate, ready.append to the log; ready.vote to the vote journal
    2. send      ready.messages: after the vote is durable, if there is one; never before
    3. apply     ready.watermark: tell readers and those who wait for their appends

A Raft entry is a record batch; its term is the batch's leader epoch. **Positions are exclusive batch ends.** The log is
the driver's: a node reads its facts (ends, epochs) and never its bytes.

messages.py     what nodes say to each other
membership.py   who votes: a broker with one particular directory, never a broker that lost it
generation.py   terms of generations: an operator gave up replicas, and the others go on without them
ready.py        what must be done, in which order
config.py       time-outs and sizes
progress.py     what a leader knows of one follower: match, window, in sync or not
pacer.py        how fast new replicas are caught up
state.py        what all roles share: term and vote, voters, a view of the log
role.py         the events of a node, and what a role that does not override them does
follower.py     verify, append, acknowledge
candidate.py    elections: pre-candidates and candidates
leader.py       replicate, commit, keep the quorum, change the membership, transfer leadership
read_index.py   a majority confirms the leadership
node.py         theory of operation; stepping, granting votes, transitions between roles
waiting.py      why there is no leader, for operators
"""
