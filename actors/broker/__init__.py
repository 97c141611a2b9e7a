"""One broker, from its start to its clean stop: the same in a process, in the harness and in the simulator.

broker          `broker@N`, its links and its port; waits until a clean stop has ended
instruments     what a test may put in the place of its disk, calendar, leaders and handlers
start           the actors of a broker, and how they are spawned
stop            the order of a clean stop
identity        `meta.properties`: to which broker a data directory belongs, and in which format
directory_lock  one cluster per data directory
readiness       whether a cluster that starts is settled and balanced
"""
