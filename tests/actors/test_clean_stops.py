"""A broker that is ended cleanly hands over all that it leads, and the log says what happened."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from actors.broker.stop import Shutdown
from actors.harness import Cluster
from log.errors import LogOffline
from log.recovery.checkpoint import CLEAN
from log.replica.member import Member
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.actors.json_lines import Lines
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of
from tests.actors.waiting import wait_until


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="barnabas")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """What each broker has logged, in order."""
    return [(getattr(one, "broker", -1), one.getMessage()) for one in caplog.records]


def test_the_controller_s_broker_hands_over_the_metadata_before_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(3, log_level="info") as cluster:
        before = controller_of(cluster)
        cluster.admin.create_topic("orders", 3, 3)
        caplog.clear()
        cluster.end(before)
        after = controller_of(cluster)
        assert after != before
        lines = said(caplog)
    led = next(at for at, (broker, text) in enumerate(lines) if broker == after and "leads __cluster_metadata" in text)
    lost = next(at for at, (broker, text) in enumerate(lines) if broker == after and f"broker {before} is down" in text)
    assert led < lost, "the next controller led before the last one was gone"


def test_a_broker_that_stops_says_so_and_one_that_is_killed_does_not(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(3, log_level="info") as cluster:
        cluster.end(1)
        texts = [text for broker, text in said(caplog) if broker == 1]
        assert any("is down: this broker has stopped" in text for text in texts)
        assert not any("crashed" in text for text in texts)
        cluster.kill(2)
        texts = [text for broker, text in said(caplog) if broker == 2]
        assert any("is down: this broker has crashed" in text for text in texts)
        assert not any("this broker has stopped" in text for text in texts)


def test_a_client_that_begins_to_speak_while_its_broker_stops_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(1, log_level="info") as cluster:
        with Lines(cluster.bootstrap) as known:
            known.ask("create_topic", name="orders", partitions=50, replication_factor=1)
        host, _, port = cluster.bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            stop_actors = Shutdown.stop_actors

            def stop(self: Shutdown) -> None:
                stop_actors(self)
                client.sendall(b'{"op":"status"}\n')

            monkeypatch.setattr(Shutdown, "stop_actors", stop)
            cluster.end(1)
            with suppress(ConnectionResetError):  # which bytes that nobody has read cause
                assert client.recv(100) == b""
    texts = [text for broker, text in said(caplog) if broker == 1]
    assert any("is down: this broker has stopped" in text for text in texts)
    assert not any("did not stop" in text for text in texts)


@pytest.mark.parametrize("error", [LogOffline("orders-1", OSError("the disk failed")), ZeroDivisionError("a bug")])
def test_a_broker_stops_cleanly_though_a_replica_fails_to_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    retire = Member.retire

    def failing(self: Member, now: float) -> bool:
        if "orders-1" in self.log.directory:
            raise error
        return retire(self, now)

    monkeypatch.setattr(Member, "retire", failing)
    with Cluster(1, data_dir=tmp_path, log_level="info") as cluster:
        cluster.admin.create_topic("orders", 3, 1)
        cluster.end(1)
    texts = [text for _, text in said(caplog)]
    assert any("is down: this broker has stopped" in text for text in texts)
    assert not any("crashed" in text for text in texts)
    clean = {path.parent.name.partition(".")[0] for path in tmp_path.glob(f"1/*/{CLEAN}")}
    assert {"orders-0", "orders-2", "__cluster_metadata-0"} <= clean
    told = [one for one in caplog.records if "broker: replica/orders-1" in one.getMessage()]
    is_bug = not isinstance(error, LogOffline)
    assert [(one.levelno, one.exc_info is not None) for one in told] == [
        (logging.ERROR if is_bug else logging.WARNING, is_bug)
    ]


def test_each_change_of_a_leader_is_logged_where_the_partition_is_led(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(3, log_level="info") as cluster:
        cluster.admin.create_topic("orders", assignment=[[1, 2, 3]])
        leads = [broker for broker, text in said(caplog) if "replica: this broker leads orders-0" in text]
        assert leads[-1:] == [1]
        cluster.end(1)
        leads = [broker for broker, text in said(caplog) if "replica: this broker leads orders-0" in text]
        assert leads[-1] in (2, 3)


def test_a_topic_that_a_client_s_question_makes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(1, log_level="info") as cluster:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="wanted")], allow_auto_topic_creation=True)
        with WireClient(cluster) as client:
            wait_until(
                lambda: client.ask(request).topics[0].error_code == ErrorCode.NONE, lambda: "the topic is not made"
            )
        with Lines(cluster.bootstrap) as lines:
            assert "error" not in lines.ask("produce", topic="in-json", value="x")
        made = [text.split()[1] for _, text in said(caplog) if "is made, since a client asked for it" in text]
        assert made == ["wanted", "in-json"]
