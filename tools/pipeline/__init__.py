"""The usual job on topics: read, decode, your function on a DataFrame, sinks; each micro-batch is applied once.

    from tools.pipeline.batches import foreach_batch
    from tools.pipeline.sinks.sql import sqlite_sink

    apply = foreach_batch(cleaned, sqlite_sink("orders.db", "orders"), decoder=JsonDecoder("id STRING, total DOUBLE"))
    stream.writeStream.foreachBatch(apply).option("checkpointLocation", "state").start()

Spark repeats a micro-batch after a crash, with the same rows and the same number. Three sinks apply every batch once:
SQL stores the number of the last batch in the transaction of its rows, Parquet renames a whole batch into place, and a
topic with the option exactlyOnce records the prepared transactions of the batch. All other topics, dead letters too,
get a batch at least once, and side effects of your own function happen at least once.

batches         foreach_batch: one micro-batch through decoder, function and sinks
decoders        JSON with a schema, text, bytes; undecodable records get a reason
dead_letters    undecodable and refused records, to a topic
letter_headers  the headers of a dead letter
sinks           tables, files, topics
sql_names       names in SQL
running         runs a query and shows its progress, until its end or Ctrl-C
job             a TOML file that describes a job, for `python -m tools.pipeline FILE.toml`
job_options     options of topics in such a file
job_runner      makes the parts of a job and runs them
capture         external data into a topic, resumable, each record once
file_tail       the lines of a file, as they are appended
read_file       an open file, also after it was renamed
sqlite_changes  the changes of a SQLite table
"""
