"""Commands that look at a running cluster and change it.

topics        topics: list, describe, create, delete, recover, more partitions
recovery      recover, `topics recover`: partitions that lost their majority
groups        groups: list, describe, reset, delete
offset_plan   the new offsets of `groups reset`
transactions  transactions: list, describe, abort, find hanging ones
configs       configs: of topics and brokers
brokers       brokers: their replicas and leaderships
move          move: a partition, to other brokers
drain         drain: move all replicas away from a broker
"""
