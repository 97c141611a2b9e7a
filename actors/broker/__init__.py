"""One broker, from its start to its clean stop: the same in a process, in the harness and in the simulator.

broker          `broker@N`, its links and its port; waits until a clean stop has ended
start           which actors a broker has, and how they are spawned
stop            the order of a clean stop
identity        who a data directory belongs to: `meta.properties`
directory_lock  one cluster per data directory
readiness       whether a cluster that starts is settled and balanced
"""
