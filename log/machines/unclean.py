"""Why no replica is elected without a majority, and what an operator does instead. One text for all who ask for it."""

from __future__ import annotations

CONFIG = "unclean.leader.election.enable"
REFUSAL = "a replica that leads without a majority of the replicas could lose acknowledged records"
REMEDY = "start the brokers that keep the partition"
