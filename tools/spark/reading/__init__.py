"""The source: planning on the driver, and reading in tasks.

batch_reader   batch queries: a range of offsets, read once
stream_reader  streaming queries: micro-batch after micro-batch
admission      the size of the next micro-batch
ranges         ranges of offsets, distributed to tasks
reader         a task: fetches its ranges and yields Arrow batches
decoding       one record batch to columns, with a compiled reader
columns        columns of many batches to Arrow
"""
