"""Groups in newline JSON: a connection is a member, at any broker; partitions move when members come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from actors.harness import Cluster
from actors.serving.json.group_reader import KEPT_RECORDS_MAX, READS_AT_ONCE_MAX
from tests.actors.json_lines import Lines, wait_until_registered
from tests.actors.waiting import wait_until
from tests.naming import unique

BROKERS = (1, 2, 3)
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), log_level="error") as cluster:
        wait_until_registered(cluster)
        yield cluster


@pytest.fixture
def clients(cluster: Cluster) -> Iterator[list[Lines]]:
    """One at each broker."""
    with ExitStack() as stack:
        yield [stack.enter_context(Lines(where)) for where in cluster.bootstrap.split(",")]


@pytest.fixture
def topic(clients: list[Lines]) -> str:
    name = unique("topic")
    assert "error" not in clients[0].ask("create_topic", name=name, partitions=PARTITIONS, replication_factor=3)
    return name


@pytest.fixture
def group() -> str:
    return unique("group")


def partitions_in(answer: dict[str, Any]) -> list[int]:
    return [number for one in answer["assignment"] for number in one["partitions"]]


class Member:
    """A connection that polls, and remembers what it is assigned and what it has read."""

    def __init__(self, lines: Lines, group: str, topic: str, **options: Any) -> None:
        self.lines = lines
        self.read: list[str] = []
        answer = lines.ask("subscribe", group=group, topics=[topic], **options)
        self.assigned = partitions_in(answer)

    def poll(self, wait_ms: int = 50, **options: Any) -> list[dict[str, Any]]:
        answer = self.lines.ask("poll", wait_ms=wait_ms, **options)
        assert "error" not in answer, answer
        if "assignment" in answer:
            self.assigned = partitions_in(answer)
        self.read += [record["value"] for record in answer["records"]]
        records: list[dict[str, Any]] = answer["records"]
        return records

    def read_until(self, count: int) -> None:
        """Poll until so many records were read."""

        def has_read() -> bool:
            self.poll()
            return len(self.read) >= count

        wait_until(has_read, lambda: f"only {self.read} were read")

    def owns(self, count: int) -> bool:
        self.poll()
        return len(self.assigned) == count


def produce(lines: Lines, topic: str, values: list[str]) -> None:
    records = [{"value": value, "partition": at % PARTITIONS} for at, value in enumerate(values)]
    assert "error" not in lines.ask("produce", topic=topic, records=records)


def test_one_member_gets_every_partition_and_reads_everything(clients: list[Lines], topic: str, group: str) -> None:
    values = [f"v{at}" for at in range(20)]
    produce(clients[0], topic, values)
    member = Member(clients[1], group, topic)
    member.read_until(20)
    assert sorted(member.read) == sorted(values)
    assert sorted(member.assigned) == list(range(PARTITIONS))


def test_few_compressed_bytes_are_read_a_little_at_a_time(clients: list[Lines], topic: str, group: str) -> None:
    """They may be very many records, and more bytes than a connection may keep."""
    large = [f"{at} {'x' * 900_000}" for at in range(4)]
    for value in large:
        sent = clients[0].ask("produce", topic=topic, records=[{"value": value, "partition": 0}], compression="zstd")
        assert "error" not in sent
    many = [{"value": f"v{at}", "partition": 0} for at in range(KEPT_RECORDS_MAX + 500)]
    for records in (many[:500], many[500:]):
        assert "error" not in clients[0].ask("produce", topic=topic, records=records, compression="zstd")
    member = Member(clients[1], group, topic)
    member.read_until(len(large) + len(many))
    assert member.read == large + [one["value"] for one in many]


def test_two_members_share_the_partitions_and_one_inherits_them(cluster: Cluster, topic: str, group: str) -> None:
    first_at, second_at = cluster.bootstrap.split(",")[:2]
    with Lines(first_at) as one:
        first = Member(one, group, topic)
        wait_until(lambda: first.owns(PARTITIONS), lambda: str(first.assigned))
        with Lines(second_at) as two:
            second = Member(two, group, topic)
            wait_until(lambda: first.owns(2) and second.owns(2), lambda: f"{first.assigned} {second.assigned}")
            assert sorted(first.assigned + second.assigned) == list(range(PARTITIONS))
        # The second one's connection is closed: it has left.
        wait_until(lambda: first.owns(PARTITIONS), lambda: str(first.assigned))


def test_what_was_committed_is_not_read_again(clients: list[Lines], cluster: Cluster, topic: str, group: str) -> None:
    produce(clients[0], topic, [f"v{at}" for at in range(8)])
    with Lines(cluster.bootstrap.split(",")[2]) as lines:
        member = Member(lines, group, topic)
        member.read_until(8)
        committed = lines.ask("commit")["committed"]
        assert [(one["partition"], one["offset"]) for one in committed] == [(number, 2) for number in range(PARTITIONS)]
    produce(clients[0], topic, [f"w{at}" for at in range(4)])
    member = Member(clients[1], group, topic)
    member.read_until(4)
    assert sorted(member.read) == [f"w{at}" for at in range(4)]


def test_a_commit_counts_what_the_polls_before_it_told(clients: list[Lines], topic: str, group: str) -> None:
    """Though all of them came at once."""
    produce(clients[0], topic, ["a"])
    clients[1].send(
        {"op": "subscribe", "group": group, "topics": [topic]}, {"op": "poll", "wait_ms": 10_000}, {"op": "commit"}
    )
    assert "error" not in clients[1].receive()
    (record,) = clients[1].receive()["records"]
    assert clients[1].receive() == {"committed": [{"topic": topic, "partition": record["partition"], "offset": 1}]}


def test_what_was_not_committed_is_read_again(clients: list[Lines], cluster: Cluster, topic: str, group: str) -> None:
    produce(clients[0], topic, ["a", "b", "c", "d"])
    for _ in range(2):
        with Lines(cluster.bootstrap.split(",")[1]) as lines:
            member = Member(lines, group, topic)
            member.read_until(4)


def test_offsets_can_be_committed_by_name(clients: list[Lines], topic: str, group: str) -> None:
    produce(clients[0], topic, [f"v{at}" for at in range(8)])
    member = Member(clients[0], group, topic)
    wait_until(lambda: member.owns(PARTITIONS), lambda: str(member.assigned))
    offsets = [{"topic": topic, "partition": 0, "offset": 1}]
    assert clients[0].ask("commit", offsets=offsets) == {"committed": offsets}
    assert clients[0].ask("unsubscribe") == {"group": group}
    again = Member(clients[1], group, topic)
    again.read_until(7)
    assert "v0" not in again.read


def test_a_poll_that_does_not_wait_gets_what_was_read_since_the_last_one(
    clients: list[Lines], topic: str, group: str
) -> None:
    values = [f"v{at}" for at in range(8)]
    produce(clients[0], topic, values)
    assert "error" not in clients[1].ask("subscribe", group=group, topics=[topic])
    read: list[str] = []

    def has_read() -> bool:
        read.extend(record["value"] for record in clients[1].ask("poll")["records"])
        return len(read) >= len(values)

    wait_until(has_read, lambda: f"only {read} were read")
    assert sorted(read) == values


def test_no_partition_is_kept_waiting_by_idle_ones(clients: list[Lines], topic: str, group: str) -> None:
    """More than are read at once, and the poll is shorter than a read that finds nothing would like to wait."""
    count = READS_AT_ONCE_MAX + 4
    assert "error" not in clients[0].ask("create_partitions", name=topic, count=count)
    member = Member(clients[1], group, topic)
    wait_until(lambda: member.owns(count), lambda: str(member.assigned))
    for number in range(count):
        told = clients[0].ask("produce", topic=topic, partition=number, value=str(number))
        assert told["partition"] == number
        (record,) = member.poll(wait_ms=10_000)
        assert record["partition"] == number


def test_what_is_not_assigned_is_not_committed(clients: list[Lines], topic: str, group: str) -> None:
    """The member that has it now may have read further."""
    first, second = Member(clients[0], group, topic), Member(clients[1], group, topic)
    wait_until(lambda: first.owns(2) and second.owns(2), lambda: f"{first.assigned} {second.assigned}")
    (his, mine) = (
        [{"topic": topic, "partition": number, "offset": offset}]
        for number, offset in ((second.assigned[0], 9), (first.assigned[0], 3))
    )
    assert clients[1].ask("commit", offsets=his) == {"committed": his}
    told = clients[0].ask("commit", offsets=[{**his[0], "offset": 1}, *mine])
    assert told["error"]["name"] == "STALE_MEMBER_EPOCH"
    by_number = {one["partition"]: one.get("error", {}).get("name") for one in told["committed"]}
    assert by_number == {second.assigned[0]: "STALE_MEMBER_EPOCH", first.assigned[0]: None}


def test_a_group_that_begins_at_the_end_reads_only_what_is_new(clients: list[Lines], topic: str, group: str) -> None:
    produce(clients[0], topic, ["old"] * PARTITIONS)
    member = Member(clients[1], group, topic, **{"from": "latest"})
    wait_until(lambda: member.owns(PARTITIONS), lambda: str(member.assigned))
    values = iter(range(1_000_000))

    def reads_new() -> bool:
        produce(clients[0], topic, [f"new{next(values)}" for _ in range(PARTITIONS)])
        return bool(member.poll())

    wait_until(reads_new, lambda: "nothing was read")
    assert "old" not in member.read


def test_who_is_in_no_group_is_told_to_subscribe(clients: list[Lines]) -> None:
    for op in ("poll", "commit"):
        name, message = clients[0].refused(op)
        assert name == "UNKNOWN_MEMBER_ID"
        assert "subscribe first" in message
    assert clients[0].ask("unsubscribe") == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topics": ["t"]}, "group: is missing"),
        ({"group": "g", "topics": []}, "topics: must name 1 to 1000 topics"),
        ({"group": "g", "topics": ["t"], "from": "middle"}, "from: must be one of"),
        ({"group": "g", "topics": ["t"], "max_poll_interval_ms": 1}, "max_poll_interval_ms: must be a whole number"),
    ],
)
def test_a_subscription_that_is_none_is_refused(clients: list[Lines], fields: dict[str, Any], said: str) -> None:
    name, message = clients[0].refused("subscribe", **fields)
    assert name == "INVALID_REQUEST"
    assert said in message


def test_an_offset_that_is_no_object_is_refused(clients: list[Lines]) -> None:
    name, said = clients[0].refused("commit", offsets=[5])
    assert (name, said) == ("INVALID_REQUEST", "offsets[0]: must be an object, not 5")


def test_a_committed_offset_that_the_log_does_not_have_is_as_none(clients: list[Lines], topic: str, group: str) -> None:
    clients[0].ask("produce", topic=topic, partition=0, records=[{"value": "a"}, {"value": "b"}])
    first = Member(clients[0], group, topic)
    first.read_until(2)
    committed = clients[0].ask("commit", offsets=[{"topic": topic, "partition": 0, "offset": 1000}])
    assert "error" not in committed
    clients[0].ask("unsubscribe")
    second = Member(clients[1], group, topic)
    second.read_until(2)
    assert second.read == ["a", "b"]


def test_a_poll_takes_no_more_than_it_asks_for(clients: list[Lines], topic: str, group: str) -> None:
    for partition in range(PARTITIONS):
        clients[0].ask("produce", topic=topic, partition=partition, records=[{"value": "a"}, {"value": "b"}])
    member = Member(clients[0], group, topic)
    while len(member.read) < 2 * PARTITIONS:
        assert len(member.poll(max_records=3)) <= 3


def test_it_is_told_why_a_group_rebalanced(clients: list[Lines], topic: str, group: str) -> None:
    member = Member(clients[0], group, topic)
    wait_until(lambda: member.owns(PARTITIONS), lambda: str(member.assigned))
    told = clients[2].ask("rebalances", group=group)
    assert told["group"] == group
    assert any("join" in one["cause"] for one in told["rebalances"]), told
    assert clients[1].refused("rebalances", group=f"no-{group}")[0] == "GROUP_ID_NOT_FOUND"


def test_a_member_goes_on_when_the_coordinator_is_killed(topic: str, group: str, cluster: Cluster) -> None:
    with Cluster(3, log_level="error") as own, Lines(own.bootstrap.split(",")[0]) as lines:
        wait_until_registered(own)
        assert "error" not in lines.ask("create_topic", name=topic, partitions=PARTITIONS, replication_factor=3)
        member = Member(lines, group, topic)
        wait_until(lambda: member.owns(PARTITIONS), lambda: str(member.assigned))
        for round_ in range(2, 4):
            own.kill(round_)
            produce(lines, topic, [f"{round_}-{at}" for at in range(PARTITIONS)])
            wanted = {f"{round_}-{at}" for at in range(PARTITIONS)}
            wait_until(lambda: member.poll() and wanted <= set(member.read), lambda: str(member.read))  # noqa: B023
            committed = lines.ask("commit")
            assert "error" not in committed, committed
            own.restart(round_)
            wait_until_registered(own)
        assert len(member.read) == len(set(member.read)), "a member that stays reads nothing twice"
