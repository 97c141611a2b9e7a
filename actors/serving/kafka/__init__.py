"""Kafka's binary protocol.

connection  the actor: requests as they come, and fetches that wait
handlers    a module for each API
"""
