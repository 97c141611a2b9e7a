"""Commands that run a cluster and look after it.

up        up: start a cluster here, without a file or with one
down      down: stop the cluster of a data directory
status    status: brokers, leaders, rates and lag
observation     a cluster at one moment, asked of every broker
report    what two observations say: states and rates
screen    a terminal that shows the same page again and again
data_directory  which data directory is meant, and the cluster that starts in it
"""
