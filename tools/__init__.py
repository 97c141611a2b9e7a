"""What people run beside the cluster: benchmarks and a CLI today; clients and Spark as they come.

bench/   `python -m tools.bench NAME`: measurements, each beside the plain thing that does the same
cli/     `python -m tools.cli COMMAND`: look into a log
simulator/   `python -m tools.simulator`: whole clusters on a virtual clock, with faults, by seed
"""
