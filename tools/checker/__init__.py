"""Does a history of what clients did and saw keep Kafka's promises? Every anomaly is reported by its name.

    python -m tools.checker history.jsonl

history       the operations: sends, transactions, polls, offsets, members; each with an outcome and when it ran
files         a history as a file: JSON lines
anomalies     what can be wrong, and the operations that show it
facts         what a history says about records, readers and transactions, looked up fast
writes        lost, unseen, doubled, moved, invented records
transactions  what readers of committed records must not see, and what they must see together
polls         consumers that jump
offsets       groups that lose their progress
fencing       producers and members that should have been fenced
check         all of it
"""
