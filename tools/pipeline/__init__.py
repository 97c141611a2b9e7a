"""The usual job on topics: read, decode, your function on a DataFrame, sinks; each micro-batch applied once.

    from tools.pipeline.batches import foreach_batch
    from tools.pipeline.sinks.sql import sqlite_sink

    apply = foreach_batch(cleaned, sqlite_sink("orders.db", "orders"), decoder=JsonDecoder("id STRING, total DOUBLE"))
    stream.writeStream.foreachBatch(apply).option("checkpointLocation", "state").start()

Spark gives a micro-batch again after a crash, with the same rows and the same number. A sink that keeps data and the
number of the last batch in one transaction (SQL), that puts a whole batch in place with one rename (Parquet), or that
writes down which prepared transactions are the batch (a topic, with the option exactlyOnce) therefore applies every
batch once. Any other topic written to, dead letters among them, gets it at least once, and so does whatever your own
function does besides giving a DataFrame back.

batches         foreach_batch: one micro-batch through decoder, function and sinks
decoders        JSON with a schema, text, bytes; what cannot be decoded is set apart, with the reason
dead_letters    what was set apart, to a topic
sinks           tables, files, topics
sql_names       names in SQL
running         a query with its progress shown, until it ends or Ctrl-C
job             a TOML file that describes all this, for `python -m tools.pipeline FILE.toml`
job_options     options of topics in such a file
job_runner      makes a job's parts and runs them
capture         outside data into a topic, resumable, once each
file_tail       the lines of a file, as they are appended
read_file       a file that is open, whatever becomes of its name
sqlite_changes  the changes of a SQLite table
"""
