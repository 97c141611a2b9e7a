"""Administration of groups and transactions.

groups        members, offsets, resets, deletions: `Admin.groups`
transactions  which transactions there are, which hang and why: `Admin.transactions`
"""
