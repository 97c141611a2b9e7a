"""What librdkafka may have written twice by its own mistake is not held against the brokers; all else is."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer

from actors.harness import Cluster
from tools.chaos.client import Setting
from tools.chaos.librdkafka.renumbering import listening
from tools.chaos.producers import Sender
from tools.chaos.recorder import Recorder
from tools.checker.check import check
from tools.checker.files import read
from tools.checker.history import IDEMPOTENT, OK, UNKNOWN, Poll, Send


@pytest.mark.long
def test_librdkafka_is_heard_when_it_numbers_its_messages_anew() -> None:
    """It does so too if messages time out while they wait behind another one."""
    heard: list[None] = []
    with Cluster(1, processes=True) as cluster:
        cluster.admin.create_topic("a", partitions=1)
        config = {
            "bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 1000,
            "socket.timeout.ms": 1000, "max.in.flight": 1, "linger.ms": 0,
        }  # fmt: skip
        producer = Producer(config | listening(lambda: heard.append(None)))
        acknowledged: list[bool] = []
        while True not in acknowledged:  # in time: else it has no number yet
            producer.produce("a", b"first", on_delivery=lambda error, _: acknowledged.append(error is None))
            assert producer.flush(30) == 0
        cluster.pause(1)
        try:
            for _ in range(100):
                producer.produce("a", b"later")
                producer.poll(0.01)
            assert producer.flush(30) == 0
            for _ in range(300):
                producer.poll(0.1)
                if heard:
                    break
        finally:
            cluster.resume(1)
    assert heard


@pytest.mark.parametrize("renumbered", [True, False])
def test_what_was_under_way_then_may_be_there_twice(renumbered: bool, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    with Recorder(history) as recorder:
        sender = Sender("idempotent0", Setting("", recorder, "1", "round", 1, 1.0), IDEMPOTENT)
        sender.outstanding["x"] = Send("p", "a-0", "x", UNKNOWN, 1, 1, kind=IDEMPOTENT)
        if renumbered:
            sender._renumbered()
        recorder.add(sender.workload, attrs.evolve(sender.outstanding.pop("x"), outcome=OK, end=2, offset=1))
        recorder.add("read", Poll("r", "1", "a-0", ((0, "x"), (1, "x")), 3, 4, position=0))
    assert [anomaly.kind.value for anomaly in check(read(history))] == ([] if renumbered else ["duplicate"])
