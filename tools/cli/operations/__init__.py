"""Commands that run a cluster and look after it.

up        up: start a cluster here, without a file or with one
down      down: stop the cluster of a data directory
data_directory  which data directory is meant, and the cluster that starts in it
"""
