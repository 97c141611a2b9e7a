"""One segment of a log, and what is known from its batches.

segment            a run of batches in one file, with sparse indexes
indexes            offset to position, timestamp to offset
transaction_index  aborted transactions, in Kafka's `.txnindex` format
epoch_cache        which leader epoch wrote which offsets
producer_state     what each producer wrote last: retries, open transactions
batch_slices       the records of one batch, read and written in slices
retention          which old segments may go
swap               segments replaced by their compacted form, all or nothing
"""
