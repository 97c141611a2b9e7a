"""Measurements, each beside the plain thing that does the same in the same run: only the ratios mean anything.

__main__.py   `python -m tools.bench NAME`
report.py     rows, the best of several rounds, and the table they make
actors.py     the actor runtime beside pykka's threads and a raw trio socketpair
"""
