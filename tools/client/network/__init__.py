"""The thread of a client, and its connections.

loop        the one thread: sockets, timers, plain functions
connection  one connection: versions agreed on, requests pipelined
broker      the way to one broker, over one connection after another
"""
