"""What a client that hangs had under way is told all the same: it may have come to pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from tools.chaos.client import Client, Setting, left_behind
from tools.chaos.recorder import Recorder
from tools.checker.check import check
from tools.checker.files import read
from tools.checker.history import UNKNOWN, OffsetCommit, OffsetRead, Poll, Send


def test_what_a_hanging_client_had_under_way_is_no_anomaly(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    with Recorder(history) as recorder:
        client = Client("c", Setting("", recorder, "1", "round", 1, 1.0))
        client.outstanding["x"] = Send("c", "a-0", "x", UNKNOWN, 1, 1)
        client.committing = [OffsetCommit("g", "a-0", 5, UNKNOWN, 1, 1)]
        recorder.add("read", Poll("r", "1", "a-0", ((0, "x"),), 2, 3))
        recorder.add("offsets", OffsetRead("g", "a-0", 5, 2, 3))
        client.record_outstanding()
    assert check(read(history)) == []


def test_what_the_library_left_behind_is_told_as_what_it_is() -> None:
    fenced = KafkaException(KafkaError(KafkaError._FENCED))
    error = SystemError("<built-in function monotonic> returned a result with an exception set")
    error.__cause__ = fenced
    assert left_behind(error).code() == KafkaError._FENCED
    error.__cause__ = ValueError("a mistake of our own")
    with pytest.raises(SystemError):
        left_behind(error)
