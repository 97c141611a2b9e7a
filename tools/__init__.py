"""What people run beside the cluster.

cli        `barnabas COMMAND`, `python -m tools.cli COMMAND`: administration, records, logs, these programs
client     clients of any Kafka cluster
spark      a PySpark source and sink of topics
pipeline   `python -m tools.pipeline FILE.toml`: the usual job on topics, on Spark
examples   `python -m tools.examples.NAME`: such jobs, with clusters of their own
testing    a pytest plugin: a cluster in a fixture
simulator  `python -m tools.simulator`: whole clusters on a virtual clock, with faults, by seed
explorer   `python -m tools.explorer`: every state of small Raft groups
chaos      `python -m tools.chaos`: real clients and brokers, while things go wrong
checker    `python -m tools.checker FILE`: does a history of clients keep Kafka's promises?
fuzz       `python -m tools.fuzz`: garbage at a live cluster
holds      `python -m tools.holds`: how long a request holds a broker's loop
bench      `python -m tools.bench NAME`: measurements, each beside the plain thing that does the same
results    `--json` of bench, chaos and simulator
docs       `python -m tools.docs PAGE`: pages of docs/ that are made from the code
wheel      how the checkout becomes a wheel with one package, `barnabas`
"""
