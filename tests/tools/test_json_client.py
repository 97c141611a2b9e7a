"""The JSON client: which requests it repeats when a connection breaks, and that they are executed once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.harness import Cluster
from protocol.partitioner import partition_for_key
from tests.actors.json_lines import Lines, wait_until_registered
from tools.client import json_client
from tools.client.json_client import (
    ClientError,
    ConnectionBroken,
    JsonClient,
    NotABroker,
    Refused,
    Unreachable,
    Written,
)

LOSES = Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="error") as cluster:
        wait_until_registered(cluster)
        with Lines(cluster.bootstrap.split(",")[0]) as client:
            client.ask("create_topic", name="orders", assignment=[[1], [2], [3]])
        yield cluster


@contextmanager
def lossy(cluster: Cluster, loses: LOSES) -> Iterator[str]:
    """The address of a proxy of a broker that closes the connection in place of the answers that it is to lose."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines, Lines(cluster.bootstrap.split(",")[0]) as broker:
                for line in lines:
                    request = json.loads(line)
                    answer = broker.ask(**request)
                    if loses(request):
                        break
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def first_of(*ops: str) -> LOSES:
    """Loses the first answer to each of these."""
    left = list(ops)

    def loses(request: dict[str, Any]) -> bool:
        if request["op"] in left:
            left.remove(request["op"])
            return True
        return False

    return loses


def end_of(cluster: Cluster, partition: int) -> int:
    with Lines(cluster.bootstrap.split(",")[0]) as client:
        end: int = client.ask("offsets", topic="orders", partition=partition)["partitions"][0]["latest"]
        return end


# -- blocking ----------------------------------------------------------------------------------------------------


def test_records_go_where_they_belong(cluster: Cluster) -> None:
    with JsonClient(cluster.bootstrap) as client:
        for key, raw in (("a", b"a"), ({"b": 1}, b'{"b":1}'), (b"\xff", b"\xff"), (7, b"7")):
            assert client.produce("orders", {"x": 1}, key=key).partition == partition_for_key(raw, 3)
        assert {client.produce("orders", "v").partition for _ in range(3)} == {0, 1, 2}
        written = client.produce("orders", b"\xfe", headers={"h": "1"}, timestamp=5, partition=1)
        answer = client.call("fetch", topic="orders", partition=1, offset=written.offset)
        assert answer["records"] == [
            {
                "offset": written.offset,
                "timestamp": 5,
                "key": None,
                "value": {"base64": "/g=="},
                "headers": [["h", "1"]],
            }
        ]


def test_a_record_whose_answer_is_lost_is_written_once(cluster: Cluster) -> None:
    before = end_of(cluster, 2)
    loses = first_of("describe_topic", "init_producer", "produce", "produce", "produce")
    with lossy(cluster, loses) as where, JsonClient(where) as client:
        written = [client.produce("orders", n, partition=2) for n in range(3)]
        assert written == [Written(2, before + n) for n in range(3)]
    assert end_of(cluster, 2) == before + 3


def test_what_a_controller_does_is_done_once(cluster: Cluster) -> None:
    with lossy(cluster, first_of("create_topic")) as where, JsonClient(where) as client:
        assert client.call("create_topic", name="once", partitions=1)["partitions"] == 1


def test_a_produce_request_of_ones_own_is_not_sent_again(cluster: Cluster) -> None:
    before = end_of(cluster, 0)
    with lossy(cluster, first_of("produce")) as where, JsonClient(where) as client:
        with pytest.raises(ConnectionBroken):
            client.call("produce", topic="orders", partition=0, value="x")
        assert client.call("status")["broker"] == 1
    assert end_of(cluster, 0) == before + 1


def test_whoever_gives_up_goes_on_as_another_producer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost record may have been written, so no other record may get its sequence."""
    before = end_of(cluster, 0)
    with lossy(cluster, first_of("produce")) as where, JsonClient(where) as client:
        with monkeypatch.context() as patch:
            patch.setattr(json_client, "RETRY_SECONDS", 0.0)
            with pytest.raises(ConnectionBroken):
                client.produce("orders", "perhaps", partition=0)
        assert client.produce("orders", "surely", partition=0) == Written(0, before + 1)


def test_a_broker_that_is_killed_is_left_for_another() -> None:
    with Cluster(3, log_level="error") as own, JsonClient(own.bootstrap) as client:
        wait_until_registered(own)
        client.call("create_topic", name="t", assignment=[[2, 3, 1]])
        written = [client.produce("t", n) for n in range(20)]
        own.kill(1)
        written += [client.produce("t", n) for n in range(20, 40)]
        own.kill(2)
        with pytest.raises(Refused):  # one of three is no majority
            client.produce("t", "never", timeout_ms=100)
        own.restart(2)
        records = client.call("fetch", topic="t", partition=0, offset=0, **{"as": "json"})["records"]
        offsets = [one.offset for one in written]  # a new leader may have needed one for itself
        assert [record["offset"] for record in records[:40]] == offsets
        assert [record["value"] for record in records[:40]] == list(range(40))


def test_what_is_refused_is_told(cluster: Cluster) -> None:
    with JsonClient(cluster.bootstrap) as client:
        with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'nowhere'") as caught:
            client.produce("nowhere", "v")
        assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
        with pytest.raises(ClientError, match="cannot be said in JSON"):
            client.call("produce", topic="orders", value=object())
        assert client.call("status")["broker"] == 1
    with JsonClient("127.0.0.1:1") as nowhere, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 "):
        nowhere.call("status")


def test_somebody_else_at_the_address_is_told() -> None:
    def answer() -> None:
        with listener.accept()[0] as stream:
            stream.recv(1 << 16)
            stream.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=answer)
        thread.start()
        with JsonClient(where) as client, pytest.raises(NotABroker, match=where):
            client.call("status")
        thread.join()
