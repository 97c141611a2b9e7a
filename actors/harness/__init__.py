"""A cluster inside a test or a script: real ports, real files, real links, no set-up.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(1)
        cluster.restart(1)

cluster          brokers 1 to N, from their start to their end, and what a test does to them
options          Kafka's settings as a plain dict
protocol_faults  requests that fail, whose answers come late, or that cost the client its connection
error_answers    the answer to a request that is refused whole
known_clients    which client is at the other end of each connection
disks            the disk of one broker, which a test fills or slows down
pausing          a scheduler that can be stopped
log_lines        the last lines that brokers logged
leader_history   who led which partition when
calendar_clock   the calendar of a cluster, which a test moves
coordinators     coordinators and cleaners, asked to do what is otherwise due later
errors           what a test did wrong, or what the cluster did not do in time
"""

from actors.harness.cluster import Cluster
from actors.harness.errors import HarnessError

__all__ = ["Cluster", "HarnessError"]
