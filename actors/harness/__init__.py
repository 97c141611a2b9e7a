"""A cluster inside a test or a script: real ports, real files, real links, no set-up.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(1)
        cluster.restart(1)

cluster          brokers 1 to N, from their start to their end, and what a test does to them
options          Kafka's settings as a plain dict
protocol_faults  requests that fail, whose answers come late, or that cost the client its connection
error_answers    the answer to a request that is refused whole
calendar_clock   the calendar of a cluster, which a test moves
errors           what a test did wrong, or what the cluster did not do in time
"""

from actors.harness.cluster import Cluster
from actors.harness.errors import HarnessError

__all__ = ["Cluster", "HarnessError"]
