"""A whole cluster in one process, on a virtual clock, with faults: a seed is a run, and the same seed is the same run.

    python -m tools.simulator --seed 7            one run
    python -m tools.simulator --seeds 0-999       a thousand, on every core
    python -m tools.simulator --mutant NAME --seeds 0-99   is this planted bug found?
    python -m tools.simulator --mutants           after how many seeds is each of them?

The brokers run the actors, the log and Raft of production; only time, wires, disks and threads are simulated.
A package imports only packages and modules that stand above it here.

settings      what one seed stands for: sizes, wires, faults, clients; names of topics and files
record        what a run leaves behind: its trace, its verdict, what clients did and saw
checks        what must hold after every event
clients       clients of plain partitions, and connections over simulated links
cluster       brokers with disks and processes, and the links between them
faults        what goes wrong, and how it heals
groups        consumer groups: members, what is committed of them, faults at their coordinators
transactions  transactions: clients, what is committed of them, faults at their coordinators
topics        topics of their own: with one replica, recovered after a loss, with a bound on producers
world         everything there is in one run
endings       the ends of some seeds: a broken minority, a loss of power everywhere
mutants       planted bugs
run           one seed from its start to its verdict
hunt          after how many seeds each planted bug is found
tally         many seeds, counted, in a file that a soak continues
"""
