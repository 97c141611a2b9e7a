"""`python -m tools.cli COMMAND`: a module for each command, and what they share.

topics            topics: list, describe, create, change, delete, recover
recovery          `topics recover`: partitions that lost their majority
groups            groups: list, describe, reset, delete
offset_plan       the new offsets of `groups reset`
transactions      transactions: list, describe, abort, find hanging ones
brokers           brokers: their replicas and leaderships
move              move: a partition, to other brokers
drain             drain: move all replicas away from a broker
produce           produce: send lines of stdin as records
consume           consume: print records as lines
group_reader      consume --group: print and commit as a member of a group
dump_log          dump-log: segments, indexes and small files, checked
recover_metadata  recover-metadata: a stopped cluster that lost its majority
operations        up, down: run a cluster
output            what the commands share: options, connections, tables, JSON
"""
