"""A PySpark source and sink of Kafka topics, of our cluster or any other: `spark.read.format("barnabas")`.

source         the data source that Spark sees
reading        how it reads
writing        how it writes
options        what a user may say, under the stock connector's names and with its errors
positions      where reading begins or ends: an end of the log, offsets, times
offsets        how far a stream has come, as Spark keeps it: {"topic": {"0": 23}}
topics         which partitions are meant, and what the brokers say about them
decisions      which micro-batch of a query is committed
group_offsets  committed offsets that lag tools see
schema         the columns of the source
last_record    the last record of a kind in a partition
session        a session that works: Java, Python, stack size
java           a Java for Spark, where there is none
errors         what a Spark job is told
"""
