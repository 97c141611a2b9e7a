"""What a client that hangs had under way is told all the same: it may have come to pass."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from actors.harness import Cluster
from tools.chaos.client import CALL_SECONDS, Client, Setting, give_up, offset_of
from tools.chaos.librdkafka.fatal_errors import Producer, raised_before
from tools.chaos.recorder import Recorder
from tools.chaos.transactors import Transactor
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


@pytest.mark.slow
def test_every_send_of_a_fenced_producer_is_told(tmp_path: Path) -> None:
    """Its library raised that it is fenced, and then called back: the first send of those was told nobody."""
    history = tmp_path / "history.jsonl"
    with Cluster(1) as cluster, Recorder(history) as recorder:
        cluster.admin.create_topic("round-in", partitions=3)
        client = Transactor("t", Setting(cluster.bootstrap, recorder, "1", "round", 3, 1.0))
        name, zombie = client.new_producer()
        transaction = client.begin_transaction(name, zombie)
        client.send_in(name, zombie, ("round-in", 0), transaction)
        assert zombie.flush(CALL_SECONDS) == 0
        client.new_producer()
        with pytest.raises(KafkaException):
            _send_until_it_knows(client, name, zombie, transaction)
        give_up(client, zombie)
        assert client.outstanding == {}
        told = [error for error in recorder.errors if error.startswith("transactional: flush: ")]
        assert told in (["transactional: flush: _FENCED"], ["transactional: flush: _FATAL"])
    assert len([one for one in read(history) if isinstance(one, Send)]) == client.sent - 1, "the last was not tried"


def _send_until_it_knows(client: Transactor, name: str, zombie: Producer, transaction: str) -> None:
    for number in itertools.count():
        client.send_in(name, zombie, ("round-in", number % 3), transaction)
        client.ending.wait(0.01)


@pytest.mark.parametrize(("offset", "told"), [(None, -1), (0, 0), (7, 7)])
def test_an_offset_that_nobody_knows_is_not_the_first_one(offset: int | None, told: int) -> None:
    class Delivered:
        def offset(self) -> int | None:
            return offset

    assert offset_of(cast("Message", Delivered())) == told


def test_what_was_raised_before_is_the_librarys_own() -> None:
    def fails_because_of(cause: Exception) -> None:
        raise SystemError("<built-in function monotonic> returned a result with an exception set") from cause

    fenced = KafkaException(KafkaError(KafkaError._FENCED))
    assert raised_before(lambda: fails_because_of(fenced)) is fenced
    assert raised_before(lambda: None) is None
    with pytest.raises(SystemError):
        raised_before(lambda: fails_because_of(ValueError("a mistake of our own")))
