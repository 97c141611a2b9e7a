"""cluster.toml.

config  the file, read and checked
facts   what every broker gets from it
"""
