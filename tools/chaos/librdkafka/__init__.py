"""Bugs of librdkafka, detected or worked around.

fatal_errors  a producer that reports every fatal error
renumbering   detects the bug that writes messages twice
punctual      a timeout for calls that may never end
"""
