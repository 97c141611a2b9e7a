"""Kafka's wire formats: pure functions from bytes to messages and back, with no I/O.

errors        what can be wrong with bytes, by the error a client is answered with
varint        signed and unsigned numbers of seven bits a byte
compression   gzip, snappy, lz4 and zstd, none of which makes more bytes than it is allowed
record        the records inside a batch
records       record batches: headers, checksums, stamps, reading, building, control records
"""
