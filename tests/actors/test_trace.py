"""What the log tells of clients, by its level: which clients come and go, and what each of them asks."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batches import Record, build_batch
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.serving.test_listener import asked, connected
from tests.actors.waiting import wait_until


@pytest.fixture
def cluster(
    leaves_nothing: None, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    caplog.set_level(request.param, "barnabas")
    with Cluster(1) as cluster:
        yield cluster
    caplog.clear()


def speak(cluster: Cluster) -> None:
    """One request in each dialect, and a line that is no request."""
    with connected(cluster) as lines:
        asked(lines, b'{"op":"status","id":"mine"}')
        asked(lines, b"nonsense")
    with WireClient(cluster) as client:
        client.ask(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize("cluster", [logging.DEBUG], indirect=True)
def test_where_everything_is_logged_every_request_has_a_line(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    speak(cluster)
    for line in (
        r'request: op="status" id="mine" from=127\.0\.0\.1:\d+ bytes=27 answered=\d+',
        r'request: op="" id=null from=127\.0\.0\.1:\d+ bytes=8 answered=\d+',
        r"request: api=Metadata version=12 correlation=\d+ client=test from=127\.0\.0\.1:\d+ bytes=\d+ answered=\d+",
    ):
        assert len(re.findall(line, caplog.text)) == 1, line


@pytest.mark.parametrize("cluster", [logging.DEBUG], indirect=True)
def test_a_request_without_answer_has_a_line_too(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.admin.create_topic("orders", 1, 1)
    with WireClient(cluster) as client:
        topic = client.until_led("orders")
        partition = PartitionProduceData(index=0, records=build_batch([Record(0, 0, None, b"a", ())]))
        data = TopicProduceData(topic_id=topic.topic_id, partition_data=[partition])
        client.send_unanswered(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data]))
        line = r"request: api=Produce .* client=test from=127\.0\.0\.1:\d+ bytes=\d+ answered=0$"
        wait_until(lambda: re.search(line, caplog.text, re.MULTILINE), lambda: caplog.text)


@pytest.mark.parametrize("cluster", [logging.DEBUG], indirect=True)
def test_whoever_comes_and_goes_is_told_with_the_number_of_its_requests(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    speak(cluster)
    for requests in (1, 2):
        gone = rf"connection: (\S+) disconnected after {requests} requests: closed by the client$"
        wait_until(lambda: re.search(gone, caplog.text, re.MULTILINE), lambda: caplog.text)  # noqa: B023
        (peer,) = re.findall(gone, caplog.text, re.MULTILINE)
        assert f"connection: {peer} connected" in caplog.text


@pytest.mark.parametrize("cluster", [logging.INFO], indirect=True)
def test_otherwise_nothing_is_told_of_clients_that_do_as_they_should(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    speak(cluster)
    assert "request: " not in caplog.text
    assert "connection: " not in caplog.text
