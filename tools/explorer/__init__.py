"""An explicit-state checker of Raft: every state that a small group can reach, breadth first, over the real `RaftNode`.

Time is abstracted to "this timer fires": any timer that is set may fire before any message arrives. A link delivers in
order; within its budget a scenario loses or repeats single messages, and crashes replicas.

    python -m tools.explorer            all scenarios, within 20 minutes
    python -m tools.explorer --small    seconds, as `make test` does it

model_log.py   the log of a replica as a list of batches; term, offsets and epochs are real
replica.py     one replica: the real `Member` and `RaftNode`, the events that can happen to it, its canonical state
locals.py      the states of single replicas, numbered; every transition is computed once
scenario.py    the bounds of a search
sites.py       replicas with the messages under way to them, numbered; every move and every message is computed once
past.py        what has happened so far: used budgets, leaders, what was committed; what must hold of it
world.py       the states of a group, a number each: successors, invariants
search.py      breadth first, then liveness: a leader must be reachable from every state that has a sufficient majority
walks.py       random walks, where the states are too many
scenarios.py   what is searched
"""
