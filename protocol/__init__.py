"""Kafka's wire formats: pure functions from bytes to messages and back, with no I/O.

errors        what can be wrong with bytes, by the error a client is answered with
varint        signed and unsigned numbers of seven bits a byte
compression   gzip, snappy, lz4 and zstd, none of which makes more bytes than it is allowed
record        the records inside a batch
records       record batches: headers, checksums, stamps, reading, building, control records
partitioner   which partition a key belongs to
error_codes   Kafka's error codes, by Kafka's names
late_attrs    attrs' classes, whose methods are made at first use
schema        the language in which messages are declared
apis          the APIs, their versions, and the ranges that are advertised
messages/     what is declared: a module for each API, and the records of the internal topics
codec         messages to bytes and back, by functions that are compiled at first use:
              source, decoder and encoder write them
framing       both ends of a Kafka connection without I/O, and which dialect is spoken on it
json_lines    the newline-JSON dialect: lines, requests, answers, errors
json_fields   what the fields of such a request may hold
json_records  records in JSON, and back
partitioner   which partition a key belongs to
"""
