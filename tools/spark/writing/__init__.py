"""The sink.

sink          rows to records, at least once
exactly_once  rows to records in transactions that the driver decides on
"""
