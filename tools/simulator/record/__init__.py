"""What a run leaves behind.

report   the trace, the verdict, and both in words
history  what clients of plain partitions did and saw, and what must not be found in it
"""
