"""The scenarios people learn Kafka with. Each is one command that starts a cluster of its own and checks its result.

`python -m tools.examples.NAME` runs one on plain clients, with `--engine spark` on Spark; `--help` tells the options.

order_saga      orders to payments to shipments, with poison pills on the way
log_stream      log lines of several services, put together by correlation id
audit_ledger    balances rebuilt by replay, equal to a fold in plain Python
iot_telemetry   rolling averages of sensors in windows, alerts to a topic
topology_audit  who sends after whom, and which broker leads what
envelope        the standard event envelope, and its safe deserialiser
poison          a wrong message for each way in which a message can be wrong
service         a consumer that handles each event once
clients         our own client and confluent-kafka, with the same few methods
stage           the cluster, the topics and the progress of a scenario
program         the options of a scenario as a program
plain           the scenarios on plain clients
spark           the scenarios on Spark
"""
