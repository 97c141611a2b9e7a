"""The partition log: Kafka's segment format on any filesystem. Pure and synchronous: no sockets, no loop, no threads.

filesystem.py handles.py     what the log asks of a disk, the real one, and a bounded set of open files
memory_filesystem.py         a disk in memory that fails on purpose
partition_log.py             the log of one partition: append, read, truncate, flush, close
segment.py indexes.py        one segment file, and its sparse indexes
slice.py                     a run of whole batches, ready for sendfile
epoch_cache.py               which leader epoch wrote which offsets
producer_state.py            what each idempotent producer last wrote; transaction_index.py: aborted transactions
verification.py              who may begin a transaction here, and who waits to be vouched for
time_lookup.py               looking for records by their timestamps
flush.py                     what a log still has to bring to disk
checkpoint.py                the small files of a log, one by one; saved_state.py: what of a log is in them
opening.py recovery.py       from a directory to a log, and finding out what is really in its segments
losses.py                    logs that lost what they had, and know it
retention.py                 which old segments may go
compaction.py cleanable.py   keeping only the newest record of each key: the work, and what of a log is ready for it
record_filter.py key_map.py  which records stay, and the newest offset of every key in bounded memory
swap.py                      replacing segments by their compacted form, all or nothing
config.py errors.py          Kafka's settings, and what can go wrong
"""
