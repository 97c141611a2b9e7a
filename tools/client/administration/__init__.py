"""Administration of groups and transactions, and questions to single brokers.

questions     how brokers and coordinators are asked
groups        members, offsets, resets, deletions: `Admin.groups`
brokers       ends of logs and disks, of one broker: `Admin.brokers`
transactions  list, describe, find hanging ones and abort them: `Admin.transactions`
"""
