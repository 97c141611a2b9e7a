"""Why no replica is elected without a majority, and what an operator does instead. One text for all places."""

from __future__ import annotations

CONFIG = "unclean.leader.election.enable"
REFUSAL = "a replica that leads without a majority of the replicas could lose acknowledged records"
COMMAND = "barnabas topics recover"
"""The command for an operator that has lost replicas for ever."""
REMEDY = (
    "start the brokers that keep the partition; if their data is lost for ever,"
    f" `{COMMAND}` shows what is left and can go on with it"
)
