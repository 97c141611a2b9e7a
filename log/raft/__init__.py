"""Raft over a partition log: the algorithm alone, no clock, no I/O.

The contract between a node and its driver (log/replica/member.py):

    node.step(message, now) / node.tick(now) / node.role.appended(...) / node.role.flushed(...)
    ready = node.take_ready()
    1. persist   ready.begin, ready.truncate, ready.append to the log; ready.vote to the vote journal
    2. send      ready.messages: after the vote is durable, if there is one; never before
    3. apply     ready.watermark: answer readers, and appends that wait for it

A Raft entry is a record batch; its term is the batch's leader epoch. **Positions are exclusive batch ends.** The log is
the driver's: a node reads its facts (ends, epochs) and never its bytes.

messages    what nodes say to each other
membership  the voters: a voter is a broker with one particular directory, never a broker that lost it
generation  terms of generations: an operator gave up replicas, and the others continue without them
ready       what must be done, in which order
config      time-outs and sizes
progress    what a leader knows of one follower: match, window, in sync or not
pacer       how fast new replicas are caught up
state       what all roles share: term and vote, voters, a view of the log
role        the events of a node, and what a role that does not override them does
follower    verify, append, acknowledge
candidate   elections: pre-candidates and candidates
leader      replicate, commit, keep the quorum, change the membership, transfer leadership
read_index  a majority confirms the leadership
node        theory of operation; stepping, granting votes, transitions between roles
waiting     why there is no leader, for operators
"""
