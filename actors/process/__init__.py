"""From a file to running processes: what cluster.toml says, where each actor lives, who starts and watches whom.

config.py        cluster.toml, read and checked; preflight.py: what only this machine can tell
placement.py     which actor lives on which broker: a pure function
launcher.py      starts the brokers, links them, restarts what dies, stops everything
hosts.py         a broker as an OS process, or as a task of this one
broker.py        one broker: its node, its links, its port, its directory
messages.py      what launcher and brokers tell each other
directory_lock.py identity.py   a data directory: whose it is, and that nobody else uses it
logs.py          log lines on stderr
"""
