"""Commands that run a cluster and look after it.

up        up: start a cluster here, without a file or with one
down      down: stop the cluster of a data directory
status    status: brokers, leaders, rates and lag
doctor    doctor: name what is wrong, and what to do
machine_checks  ports, directories, limits, disks, clock, versions
cluster_checks  brokers, partitions, disks, versions, hanging transactions
finding   one line of the diagnosis
observation     a cluster at one moment, asked of every broker
report    what two observations say: states and rates
screen    a terminal that shows the same page again and again
data_directory  which data directory is meant, and the cluster that starts in it
"""
