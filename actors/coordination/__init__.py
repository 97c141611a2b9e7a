"""The coordinators: one actor for each partition of an internal topic that this broker leads.

coordinator   the base of both: loading, one flight at a time, answers in order
groups        `group_coordinator/3@1`: consumer groups and their offsets
transactions  `transaction_coordinator/3@1`: transactions, and the markers that end them
"""
