"""An explicit-state checker of Raft: every state that a small group can reach, breadth first, over the real `RaftNode`.

Time is abstracted to "this timer fires": any timer that is set may fire before any message arrives. A link delivers in
order; within its budget a scenario loses or repeats single messages, and crashes replicas.

    python -m tools.explorer            all scenarios, within 20 minutes
    python -m tools.explorer --small    seconds, as `make test` does it

model_log  the log of a replica as a list of batches; terms, offsets and epochs are real
replica    one replica: the real `Member` and `RaftNode`, the events that can happen to it, its canonical state
locals     the states of single replicas, numbered; every transition is computed once
scenario   the bounds of a search
sites      replicas with the messages under way to them, numbered; every move and message is computed once
past       what has happened so far: used budgets, leaders, commits; what must hold of it
states     the states of a group, a number each: successors, invariants
search     breadth first, then liveness: a leader must be reachable where a sufficient majority is left
walks      random walks, where the states are too many
scenarios  what is searched
"""
