"""A whole cluster in one process, on a virtual clock, with faults: a seed is a run, and the same seed is the same run.

    python -m tools.simulator --seed 7            one run
    python -m tools.simulator --seeds 0-999       a thousand, on every core
    python -m tools.simulator --mutant NAME --seeds 0-99   is this planted bug found?
    python -m tools.simulator --mutants           after how many seeds is each of them?

The brokers run the actors, the log and Raft of production; only time, wires, disks and threads are simulated.

settings.py     what one seed stands for: sizes, flush policy, how bad the wires are, which faults
world.py        brokers, their disks and processes, the links between them and to the clients
clients.py      writers and readers; history.py: what they did, and what must not be seen in it
streams.py      sockets on simulated links, to real connections; kafka_client.py: who speaks Kafka's protocol on them
consumers.py    members of consumer groups: classic_consumer.py, new_consumer.py; group_world.py: all of them in a run
group_view.py   what is committed of groups, and what must not be found in it; group_faults.py: where it hurts them
transactor.py   the steps of a transaction, by scripts (transaction_client.py): transactional_producer.py,
                transactional_copier.py (consume, transform, produce), transaction_reader.py; transaction_world.py
transaction_view.py   what is committed of transactions, and what must not be found in it; transaction_faults.py;
                late_requests.py: what arrives when its transaction has ended; late_vouching.py: word of it, too;
                forged_markers.py: what no coordinator sent
unreplicated.py partitions with one replica: their clients, moves and promises
invariants.py   what must hold after every event
faults.py       what goes wrong, and how it heals; disk_faults.py: with disks and clocks; vote_faults.py: with votes;
                directed_faults.py, old_words.py: what waits for its moment, or makes it
run.py          one seed from its start to its verdict; report.py: how that is told
mutants.py      planted bugs, to see that the simulator finds them; hunt.py: all of them, on every core
"""
