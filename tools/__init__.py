"""What people run beside the cluster.

docs.py  `python -m tools.docs PAGE`: pages of docs/ that are made from the code
bench/   `python -m tools.bench NAME`: measurements, each beside the plain thing that does the same
client/  clients of any Kafka cluster
spark/   a PySpark source and sink of topics
pipeline/    `python -m tools.pipeline FILE.toml`: the usual job on topics, on Spark
examples/    `python -m tools.examples.NAME`: such jobs, with clusters of their own
cli/     `python -m tools.cli COMMAND`: look into a log
chaos/   `python -m tools.chaos`: does a cluster keep its promises while things go wrong?
checker/     `python -m tools.checker FILE`: does a history of what clients did and saw keep Kafka's promises?
simulator/   `python -m tools.simulator`: whole clusters on a virtual clock, with faults, by seed
"""
