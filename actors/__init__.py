"""Everything alive: the actor runtime, the processes it is spread over, and one module per actor.

runtime/     actors, mailboxes, the scheduler, timers, addresses, links between processes
process/     the launcher, the brokers it starts, and where each actor lives
cluster.py   `python -m actors.cluster cluster.toml`
harness.py   the same cluster inside a test or a script
"""
