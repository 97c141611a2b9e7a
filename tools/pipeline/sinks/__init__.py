"""Where rows go.

sink     what a sink is, and the number under which a micro-batch is known
sql      tables of SQLite and PostgreSQL
parquet  Parquet files
topic    topics
"""
