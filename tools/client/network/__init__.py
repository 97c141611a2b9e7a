"""The thread of a client, its connections, and its metadata of the cluster.

loop         the one thread: sockets, timers, plain functions
connection   one connection: negotiates versions, pipelines requests
broker       one broker, over one connection after another
cluster      metadata that is kept up to date, and the ways to the brokers
coordinator  the coordinator of a group or a transactional id
"""
