"""The scenarios on plain clients, and what both engines share: the events, their contract and the right result.

order_saga      orders, payments, shipments
log_stream      log lines of several services, by correlation id
audit_ledger    transfers in a chain
iot_telemetry   readings in rolling windows
topology_audit  who sends after whom, and which broker leads what
"""
