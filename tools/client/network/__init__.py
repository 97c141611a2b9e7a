"""The thread of a client, its connections, and its picture of the cluster.

loop         the one thread: sockets, timers, plain functions
connection   one connection: versions agreed on, requests pipelined
broker       the way to one broker, over one connection after another
cluster      a picture of the cluster that is kept up to date
coordinator  the coordinator of a group or a transactional id: found and asked
"""
