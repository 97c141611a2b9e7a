"""Administration of groups and transactions.

questions     how brokers and coordinators are asked
groups        members, offsets, resets, deletions: `Admin.groups`
transactions  list, describe, find hanging ones and abort them: `Admin.transactions`
"""
