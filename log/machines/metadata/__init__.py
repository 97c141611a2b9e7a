"""The metadata of the cluster.

metadata   brokers, topics, replicas, configs, replayed from the log
records    the records of the metadata log
plans      what an operation writes into that log, or why it is refused
placement  which brokers keep which replicas
topic_ids  a topic's id, as it travels and as it is written
"""
