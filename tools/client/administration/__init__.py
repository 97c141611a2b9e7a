"""Administration of groups and transactions.

questions     how brokers and coordinators are asked
groups        members, offsets, resets, deletions: `Admin.groups`
transactions  which transactions there are, which hang and why: `Admin.transactions`
"""
