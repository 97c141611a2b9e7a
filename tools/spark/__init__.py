"""A PySpark source and sink of the topics of any Kafka cluster: `spark.read.format("barnabas")`.

source         the data source that Spark sees
reading        the source
writing        the sink
options        the options, with the stock connector's names and errors
positions      first and last positions: an end of the log, offsets, times
offsets        the offsets of a stream, as Spark keeps them: {"topic": {"0": 23}}
topics         the selected partitions and their offsets, from the brokers
decisions      the record of the committed micro-batch of a query
first_contact  does anything listen at the brokers' addresses?
group_offsets  committed offsets for lag tools
schema         the columns of the source
last_record    the last committed record of a kind in a partition
session        a session that works: Java, Python, stack size
java           finds a Java for Spark, or makes one of a wheel
errors         the errors of a Spark job, and the reason for one in one line
"""
