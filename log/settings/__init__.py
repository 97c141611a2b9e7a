"""The table of all settings.

kinds    what a value may be: whole numbers, words, lists; InvalidConfig
table    every setting of topics and brokers: name, kind, range, default, documentation
unclean  why no replica is elected without a majority, and what an operator does instead
"""
