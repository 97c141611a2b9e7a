"""A PySpark source and sink of Kafka topics, of our cluster or any other: `spark.read.format("barnabas")`.

options        what a user may say, under the stock connector's names and with its errors
positions      where reading begins or ends: an end of the log, offsets, times
offsets        how far a stream has come, as Spark keeps it: {"topic": {"0": 23}}
topics         which partitions are meant, and what the brokers say about them; asked on the driver
admission      how much of what is there goes into the next micro-batch
ranges         offsets from … to …, shared out among tasks
decoding       one record batch to columns, by a compiled reader
columns        columns of many batches to Arrow
reader         what a task does: fetches its ranges and yields Arrow
source         the data source that Spark sees; batch_reader and stream_reader plan, reader reads; schema: its columns
group_offsets  committed offsets that lag tools see
sink           rows to records, at least once
exactly_once   rows to records in transactions that the driver decides on; decisions: what it has decided
session        a session that works: Java, Python, stack size; java finds or makes the Java
"""
