"""The sinks of rows.

sink     the interface of a sink, and the id of a micro-batch
sql      tables of SQLite and PostgreSQL
parquet  Parquet files
topic    topics
"""
