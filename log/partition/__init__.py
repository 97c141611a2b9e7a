"""The log of one partition.

partition_log  append, read, truncate, flush, close
admission      what clients may append
refusals       batches refused for now, which later ones must not overtake
verification   which producers may begin a transaction here (KIP-890)
time_lookup    records found by their timestamps, in slices
"""
