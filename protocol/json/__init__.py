"""The newline-JSON dialect.

lines    lines, requests, answers, errors, without the connection
fields   what the fields of a request may hold
records  records in JSON, and back
"""
