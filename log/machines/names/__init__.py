"""Regular expressions over names of topics, in RE2's syntax and bounded time.

pattern  an expression, matched
syntax   an expression, read
"""
