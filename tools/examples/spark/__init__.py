"""The scenarios on Spark: the same events, contracts and results as on plain clients.

order_saga      orders and payments as streams, refunds as a batch
log_stream      a log file tailed into a topic, its errors into SQLite
audit_ledger    the chain and the balances as a table
iot_telemetry   Spark's windows by event time
topology_audit  the ways between services as a table
events          the envelope's deserialiser and a service's function, for columns
stage           the Spark session of a scenario, and its streams
"""
