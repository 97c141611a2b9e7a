"""Compaction: of each key, only the newest record stays.

compaction     the sealed part of a log rewritten, in bounded steps
cleanable      what may be compacted, and whether it is worth it
record_filter  which batches and records stay
key_map        the newest offset of every key, in bounded memory
"""
