"""Worked examples. Each is one command, starts a cluster of three brokers of its own, and checks its own result.

    python -m tools.examples.iot_telemetry     rolling averages of sensors in windows, alerts to a topic
    python -m tools.examples.audit_ledger      balances rebuilt by replay, equal to a fold in plain Python
    python -m tools.examples.log_stream        a log file tailed into a topic; its errors by correlation id into SQLite
    python -m tools.examples.order_saga        orders to payments to shipments, with a poison pill on the way

`--master spark://host:port` runs the same on a Spark cluster.
"""
