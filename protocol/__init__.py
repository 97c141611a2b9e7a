"""Kafka's wire formats: pure functions from bytes to messages and back, with no I/O.

apis         the APIs, their versions, and the ranges that are advertised
messages     the messages: a module for each API, and the records of the internal topics
schema       the language in which messages are declared, and the codec that it is compiled to
framing      both ends of a Kafka connection without I/O, and which dialect is spoken on it
records      records and record batches
json         the newline-JSON dialect
partitioner  which partition a key belongs to
strangers    what other protocols look like that reach a broker's port by mistake
error_codes  Kafka's error codes, by Kafka's names
errors       what can be wrong with bytes, by the error that a client is answered with
late_attrs   attrs' classes, whose methods are made at first use
"""
