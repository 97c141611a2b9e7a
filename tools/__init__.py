"""What people run beside the cluster: benchmarks today; clients, a CLI and Spark as they come.

bench/   `python -m tools.bench actors`: the runtime beside plain pykka and raw sockets
"""
