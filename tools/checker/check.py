"""Runs every check on a history."""

from __future__ import annotations

from tools.checker.anomalies import Anomaly
from tools.checker.facts import Facts
from tools.checker.fencing import check_fencing
from tools.checker.history import History
from tools.checker.offsets import check_offsets
from tools.checker.polls import check_polls
from tools.checker.transactions import check_transactions
from tools.checker.writes import check_writes

CHECKS = (check_writes, check_transactions, check_polls, check_offsets, check_fencing)


def check(history: History) -> list[Anomaly]:
    """Every anomaly of a history; none, if it keeps all promises."""
    facts = Facts(history)
    return [anomaly for one in CHECKS for anomaly in one(facts)]
