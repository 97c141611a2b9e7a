"""Settings: one table of them, and what topics make of theirs.

kinds    what a value may be: whole numbers, words, lists; InvalidConfig
table    every setting of topics and brokers: name, kind, range, default, documentation
topics   the configs of a topic: checked, with the defaults that the brokers give
unclean  why no replica is elected without a majority, and what an operator does instead
"""
