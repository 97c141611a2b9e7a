"""Worked examples. Each is one command that starts its own cluster of three brokers and checks its result.

`python -m tools.examples.NAME --master spark://host:port` runs one on a Spark cluster.

iot_telemetry  rolling averages of sensors in windows, alerts to a topic
audit_ledger   balances rebuilt by replay, equal to a fold in plain Python
log_stream     a log file tailed into a topic; its errors by correlation id into SQLite
order_saga     orders to payments to shipments, with a poison pill on the way
stage          the cluster and the Spark session of an example
"""
