"""Administration in newline JSON, at the port of any broker: every operation, what is refused, and in which order."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pykka
import pytest

from actors.harness import Cluster
from actors.messages.controller import Outcome
from actors.runtime import Future, LinkLost, MailboxFull
from actors.serving.json.handlers import HANDLERS
from actors.serving.json.operations import OPERATIONS
from protocol.error_codes import ErrorCode
from tests.actors.waiting import wait_until
from tests.naming import unique

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), log_level="error") as cluster:
        yield cluster


class Client:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.lines: BinaryIO = self.socket.makefile("rb")

    def send(self, *requests: dict[str, Any]) -> None:
        self.socket.sendall(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    def receive(self) -> Any:
        return json.loads(self.lines.readline())

    def ask(self, op: object, **fields: Any) -> Any:
        self.send({"op": op, **fields})
        return self.receive()

    def described(self, op: str) -> Any:
        """`topics` or `brokers`, once the broker has taken in what it has heard."""
        while (answer := self.ask(op)).get("error", {}).get("name") == "NOT_CONTROLLER":
            pass
        return answer[op]

    def topic(self, name: str) -> Any:
        """The topic as this broker knows it: it may hear of it later than the controller."""
        return next((topic for topic in self.described("topics") if topic["name"] == name), None)

    def broker(self, broker: int) -> Any:
        return next(one for one in self.described("brokers") if one["broker"] == broker)

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture(params=BROKERS, ids="broker {}".format)
def client(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Client]:
    """To each broker in turn: one of them is the controller."""
    client = Client(cluster.bootstrap.split(",")[request.param - 1])
    yield client
    client.close()


@pytest.fixture
def one_client(cluster: Cluster) -> Iterator[Client]:
    client = Client(cluster.bootstrap.split(",")[0])
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    return unique("topic")


def soon(condition: Callable[[], object]) -> None:
    wait_until(condition, lambda: "what was done is not seen")


# -- operations --------------------------------------------------------------------------------------------------


def test_a_topic_is_made_described_and_deleted(client: Client, name: str) -> None:
    configs = {"retention.ms": "60000"}
    made = client.ask("create_topic", name=name, partitions=2, replication_factor=3, configs=configs)
    assert made == {"warnings": [], "topic_id": made["topic_id"], "partitions": 2, "replication_factor": 3}
    soon(lambda: client.topic(name) and all(len(one["isr"]) == 3 for one in client.topic(name)["partitions"]))
    topic = client.topic(name)
    assert (topic["topic_id"], topic["configs"]) == (made["topic_id"], configs)
    assert [one["partition"] for one in topic["partitions"]] == [0, 1]
    for partition in topic["partitions"]:
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [1, 2, 3]
        assert partition["leader"] in BROKERS
    assert client.ask("delete_topic", name=name) == {
        "warnings": [],
        "topic_id": made["topic_id"],
        "name": name,
    }
    soon(lambda: client.topic(name) is None)


def test_a_topic_is_made_as_assigned_and_its_weakness_is_said(client: Client, name: str) -> None:
    made = client.ask("create_topic", name=name, assignment=[[2], [3], [1]])
    assert made["partitions"] == 3
    assert "tolerates no failure" in made["warnings"][0]
    soon(lambda: client.topic(name))
    assert [one["replicas"] for one in client.topic(name)["partitions"]] == [[2], [3], [1]]


def test_brokers_are_described(client: Client, name: str) -> None:
    soon(lambda: len(client.described("brokers")) == len(BROKERS))
    answer = client.ask("brokers")
    assert answer["controller"] in BROKERS
    assert answer["cluster_id"]
    assert [one["broker"] for one in answer["brokers"]] == [1, 2, 3]
    assert all(one["alive"] and not one["draining"] and one["port"] > 0 for one in answer["brokers"])
    before = client.broker(3)
    client.ask("create_topic", name=name, assignment=[[3]])
    soon(lambda: client.broker(3)["replicas"] == before["replicas"] + 1)
    soon(lambda: client.broker(3)["leads"] > before["leads"])


def test_partitions_are_added(client: Client, name: str) -> None:
    client.ask("create_topic", name=name, partitions=1, replication_factor=3)
    assert client.ask("create_partitions", name=name, count=2)["partitions"] == 2
    assert client.ask("create_partitions", name=name, count=3, assignment=[[3, 1, 2]])["partitions"] == 3
    soon(lambda: client.topic(name) and len(client.topic(name)["partitions"]) == 3)
    assert client.topic(name)["partitions"][2]["replicas"] == [3, 1, 2]
    assert client.ask("create_partitions", name=name, count=2)["error"]["name"] == "INVALID_PARTITIONS"


def test_configs_are_set_and_taken_back(client: Client, name: str) -> None:
    client.ask("create_topic", name=name, replication_factor=3, configs={"retention.ms": "1000"})
    changes = {"retention.ms": None, "segment.bytes": "1048576"}
    assert client.ask("alter_configs", name=name, configs=changes)["configs"] == {"segment.bytes": "1048576"}
    soon(lambda: client.topic(name) and client.topic(name)["configs"] == {"segment.bytes": "1048576"})
    error = client.ask("alter_configs", name=name, configs={"retention.msec": "1"})["error"]
    assert (error["code"], error["name"]) == (40, "INVALID_CONFIG")


@pytest.mark.parametrize("op", ["create_topic", "create_partitions", "alter_configs"])
def test_what_is_only_validated_is_not_done(one_client: Client, name: str, op: str) -> None:
    fields: dict[str, dict[str, Any]] = {
        "create_topic": {"name": name, "replication_factor": 3},
        "create_partitions": {"name": f"{name}-there", "count": 5},
        "alter_configs": {"name": f"{name}-there", "configs": {"retention.ms": "1000"}},
    }
    one_client.ask("create_topic", name=f"{name}-there", partitions=1, replication_factor=3)
    assert "error" not in one_client.ask(op, **fields[op], validate_only=True)
    one_client.ask("create_topic", name=f"{name}-after", replication_factor=3)
    soon(lambda: one_client.topic(f"{name}-after"))
    assert one_client.topic(name) is None
    there = one_client.topic(f"{name}-there")
    assert (len(there["partitions"]), there["configs"]) == (1, {})


def test_the_id_of_another_request_is_answered_as_that_one_was(one_client: Client, name: str) -> None:
    """Its answer has nothing of a created topic, and the connection lives on."""
    one_client.ask("create_topic", name=name, replication_factor=3)
    fields = {"name": name, "configs": {"retention.ms": "1000"}}
    first = one_client.ask("alter_configs", **fields, request_id=f"once {name}")
    again = one_client.ask("create_topic", name=f"{name}-other", request_id=f"once {name}")
    assert first["configs"] == again["configs"] == {"retention.ms": "1000"}
    assert one_client.topic(f"{name}-other") is None


def test_a_partition_is_moved(cluster: Cluster, client: Client, name: str) -> None:
    client.ask("create_topic", name=name, assignment=[[1]])
    assert "error" not in client.ask("move", topic=name, partition=0, replicas=[2])
    soon(lambda: client.topic(name) and client.topic(name)["partitions"][0]["replicas"] == [2])
    soon(lambda: not client.topic(name)["partitions"][0]["moved_from"])
    keeper = Client(cluster.bootstrap.split(",")[1])
    soon(lambda: keeper.topic(name)["partitions"][0]["leader"] == 2)
    keeper.close()
    error = client.ask("cancel_move", topic=name, partition=0)["error"]
    assert error == {"code": 85, "name": "NO_REASSIGNMENT_IN_PROGRESS", "message": f"{name}-0 is not being moved"}


def test_a_move_is_cancelled(one_client: Client, name: str) -> None:
    one_client.ask("create_topic", name=name, assignment=[[1, 2]])

    def cancelled_in_time() -> bool:
        one_client.send(
            {"op": "move", "topic": name, "partition": 0, "replicas": [1, 3]},
            {"op": "cancel_move", "topic": name, "partition": 0},
        )
        assert "error" not in one_client.receive()
        return "error" not in one_client.receive()

    soon(cancelled_in_time)
    soon(lambda: one_client.topic(name)["partitions"][0]["replicas"] == [1, 2])
    soon(lambda: not one_client.topic(name)["partitions"][0]["moved_from"])


def test_a_broker_is_drained_and_welcome_again(name: str) -> None:
    """In a cluster of its own, whose other topics do not move with it."""
    with Cluster(3, log_level="error") as own:
        client = Client(own.bootstrap.split(",")[0])
        client.ask("create_topic", name=name, assignment=[[3], [1]])
        assert client.ask("drain", broker=3) == {"warnings": [], "moves": 1}
        soon(lambda: client.broker(3)["draining"])
        soon(lambda: client.broker(3)["replicas"] == 0)
        assert client.ask("drain", broker=3, draining=False) == {"warnings": []}
        soon(lambda: not client.broker(3)["draining"])
        assert client.ask("drain", broker=9)["error"]["name"] == "BROKER_ID_NOT_REGISTERED"
        client.close()


def test_preferred_leaders_are_elected(one_client: Client, name: str) -> None:
    """A move that only changes who is preferred leaves the leader; an election brings the preferred one."""
    one_client.ask("create_topic", name=name, assignment=[[1, 2, 3]])
    soon(lambda: one_client.topic(name) and one_client.topic(name)["partitions"][0]["leader"] == 1)
    soon(lambda: one_client.topic(name)["partitions"][0]["isr"] == [1, 2, 3])
    one_client.ask("move", topic=name, partition=0, replicas=[3, 2, 1])
    soon(lambda: one_client.topic(name)["partitions"][0]["replicas"] == [3, 2, 1])

    def elected() -> bool:
        assert "elections" in one_client.ask("elect_leaders", topic=name)
        return bool(one_client.topic(name)["partitions"][0]["leader"] == 3)

    soon(elected)
    assert "elections" in one_client.ask("elect_leaders")
    assert one_client.ask("elect_leaders", topic="nowhere")["error"]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"


# -- once, and in order ------------------------------------------------------------------------------------------


def test_a_request_that_comes_again_is_done_once(cluster: Cluster, name: str) -> None:
    clients = [Client(bootstrap) for bootstrap in cluster.bootstrap.split(",")]
    answers = [
        client.ask("create_topic", name=name, replication_factor=3, request_id=f"make {name}") for client in clients
    ]
    assert "error" not in answers[0]
    assert answers == [answers[0]] * 3
    assert clients[0].ask("create_topic", name=name)["error"]["name"] == "TOPIC_ALREADY_EXISTS"
    for client in clients:
        client.close()


def test_answers_come_in_the_order_of_requests(client: Client, name: str) -> None:
    """However much longer one takes than the next."""
    requests: list[dict[str, Any]] = []
    for number in range(10):
        requests += [
            {"op": "create_topic", "name": f"{name}-{number}", "replication_factor": 3},
            {"op": "status"},
            {"op": "create_topic", "name": f"{name}-{number}"},
            {"op": "nonsense"},
            {"op": "delete_topic", "name": f"{name}-{number}"},
        ]
    client.send(*({**request, "id": at} for at, request in enumerate(requests)))
    answers = [client.receive() for _ in requests]
    assert [answer["id"] for answer in answers] == list(range(len(requests)))
    for made, status, again, unknown, deleted in zip(*(answers[at::5] for at in range(5)), strict=True):
        assert made["topic_id"] == deleted["topic_id"]
        assert status["broker"] in BROKERS
        assert again["error"]["name"] == "TOPIC_ALREADY_EXISTS"
        assert unknown["error"]["name"] == "INVALID_REQUEST"


# -- what is refused ---------------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("create_topic", {}, "name: is missing"),
    ("create_topic", {"name": None}, "name: is missing"),
    ("create_topic", {"name": 7}, "name: must be a string of 1 to 32767 characters, not 7"),
    ("create_topic", {"name": ""}, "name: must be a string"),
    ("create_topic", {"name": ["a"]}, "name: must be a string of 1 to 32767 characters, not a list"),
    ("create_topic", {"name": "a", "partitions": "6"}, 'partitions: must be a whole number of 32 bits, not "6"'),
    ("create_topic", {"name": "a", "partitions": True}, "partitions: must be a whole number"),
    ("create_topic", {"name": "a", "partitions": 1.5}, "partitions: must be a whole number"),
    ("create_topic", {"name": "a", "partitions": 2**40}, "partitions: must be a whole number"),
    ("create_topic", {"name": "a", "replication_factor": {}}, "replication_factor: must be a whole number"),
    ("create_topic", {"name": "a", "assignment": []}, "assignment: must be a list of broker ids for each partition"),
    ("create_topic", {"name": "a", "assignment": [[1], 2]}, "assignment[1]: must be a list of broker ids"),
    ("create_topic", {"name": "a", "assignment": [[1], []]}, "assignment[1]: must be a list of broker ids"),
    ("create_topic", {"name": "a", "assignment": [[1, "2"]]}, "assignment[0][1]: must be a whole number"),
    ("create_topic", {"name": "a", "configs": []}, "configs: must be an object"),
    ("create_topic", {"name": "a", "configs": {"retention.ms": 5}}, "configs.retention.ms: must be a string"),
    ("create_topic", {"name": "a", "configs": {"retention.ms": None}}, "configs.retention.ms: must be a string"),
    ("create_topic", {"name": "a", "validate_only": 1}, "validate_only: must be true or false, not 1"),
    ("create_topic", {"name": "a", "partition": 3}, "partition: unknown field; known: name, partitions, "),
    ("create_topic", {"name": "a", "x" * 5000: 3}, "x" * 100 + "…: unknown field"),
    ("delete_topic", {}, "name: is missing"),
    ("create_partitions", {"name": "a"}, "count: is missing"),
    ("alter_configs", {"name": "a"}, "configs: is missing"),
    ("alter_configs", {"name": "a", "configs": {"k": 5}}, "configs.k: must be a string"),
    ("move", {"topic": "a", "partition": 0}, "replicas: is missing"),
    ("move", {"topic": "a", "partition": 0, "replicas": []}, "replicas: must be a list of broker ids"),
    ("move", {"topic": "a", "partition": 0, "replicas": "1,2"}, "replicas: must be a list of broker ids"),
    ("cancel_move", {"topic": "a"}, "partition: is missing"),
    ("cancel_move", {"topic": "a", "partition": 0, "replicas": [1]}, "replicas: unknown field"),
    ("drain", {}, "broker: is missing"),
    ("drain", {"broker": 1, "draining": "no"}, "draining: must be true or false"),
    ("elect_leaders", {"topic": 3}, "topic: must be a string"),
    ("topics", {"name": "a"}, "name: unknown field; known: request_id"),
    ("brokers", {"request_id": 5}, "request_id: must be a string"),
    ("delete_topic", {"name": "a", "request_id": "x" * 101}, "request_id: must be a string of 1 to 100 characters"),
]


def test_a_bad_field_is_named_and_the_connection_lives_on(one_client: Client) -> None:
    for number, (op, fields, complaint) in enumerate(BAD):
        answer = one_client.ask(op, id=number, **fields)
        assert answer == {"id": number, "error": {**answer["error"], "code": 42, "name": "INVALID_REQUEST"}}
        assert answer["error"]["message"].startswith(complaint), (op, fields)
        assert len(answer["error"]["message"]) < 300
    assert one_client.described("topics") is not None


def test_an_unknown_op_is_told_which_are_known(one_client: Client) -> None:
    message = one_client.ask("dance")["error"]["message"]
    assert message == f'unknown op "dance"; known: {", ".join(HANDLERS)}'
    for op, told in ((None, "null"), (5, "5"), (True, "true")):
        assert one_client.ask(op)["error"]["message"].startswith(f"unknown op {told}; ")


@pytest.mark.parametrize(
    ("op", "fields", "error"),
    [
        ("create_topic", {"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("create_topic", {"name": "a" * 20_000}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("create_topic", {"name": "a", "partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ("create_topic", {"name": "a", "partitions": -(2**31) + 1}, ErrorCode.INVALID_PARTITIONS),
        ("create_topic", {"name": "a", "replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("create_topic", {"name": "a", "assignment": [[1, 9]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("create_topic", {"name": "a", "partitions": 1, "assignment": [[1]]}, ErrorCode.INVALID_REQUEST),
        ("delete_topic", {"name": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("move", {"topic": "nowhere", "partition": 0, "replicas": [1]}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_the_controller_refuses_has_kafkas_name(
    client: Client, op: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    told = client.ask(op, **fields)["error"]
    assert (told["code"], told["name"]) == (error, error.name)
    assert told["message"]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (pykka.Timeout("no answer within 15.0 s"), ErrorCode.REQUEST_TIMED_OUT),
        (pykka.ActorDeadError("controller@1 not found"), ErrorCode.NOT_CONTROLLER),
        (LinkLost("the link to broker 2 is lost"), ErrorCode.NOT_CONTROLLER),
        (MailboxFull("controller@1 has no room"), ErrorCode.NOT_CONTROLLER),
        (ZeroDivisionError("oh"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_controller_that_does_not_answer_is_told(failure: Exception, error: ErrorCode) -> None:
    future: Future[Any] = Future()
    future.fail(failure)
    told = OPERATIONS["topics"].answer(Outcome.of(future))["error"]
    assert (told["code"], told["name"]) == (error, error.name)
    assert str(failure.args[0]) in told["message"]
