"""The source: what Spark asks on the driver, and what its tasks do.

batch_reader   a table of topics, read once
stream_reader  a stream of topics, micro-batch after micro-batch
admission      how much of what is there goes into the next micro-batch
ranges         offsets from … to …, shared out among tasks
reader         what a task does: fetches its ranges and yields Arrow
decoding       one record batch to columns, by a compiled reader
columns        columns of many batches to Arrow
"""
