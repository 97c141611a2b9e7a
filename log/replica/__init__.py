"""Raft on a disk: a Raft node and its log, driven together.

member        a node and its log: the order of persisting, sending and applying
vote_journal  terms and votes of all Raft groups of one process, in one file
"""
