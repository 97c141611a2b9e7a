"""`python -m tools.cli groups` and `consume --group`: what they do, what they print where, and how they end."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tests.tools.cli.likeness import assert_like
from tools.cli.administration import offset_plan
from tools.cli.administration.offset_plan import BadFile, Log, Move, plan, read_offsets
from tools.cli.root import main
from tools.cli.shapes import SHAPES
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer

PARTITIONS = 2
TIME_MS = 1_700_000_000_000
Command = Callable[..., "Output"]


class Output:
    def __init__(self, code: int, captured: Any) -> None:
        self.code, self.out, self.err = code, captured.out, captured.err
        self.rows = [line.split("\t") for line in self.out.splitlines()]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(1, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def command(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Output:
        capsys.readouterr()
        code = main([*map(str, arguments), "--bootstrap", bootstrap])
        return Output(code, capsys.readouterr())

    return run


@pytest.fixture
def topic(bootstrap: str) -> str:
    """With ten records in each partition, a second apart."""
    name = unique("topic")
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS, replication_factor=1, configs={"retention.ms": "-1"})
    with Producer(bootstrap) as producer:
        for number in range(10 * PARTITIONS):
            when = TIME_MS + number // PARTITIONS * 1000
            producer.send(name, b"%d" % number, partition=number % PARTITIONS, timestamp_ms=when)
    return name


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """Without members; it has read four records of the first partition and all of the second."""
    name = unique("group")
    with Admin(bootstrap) as admin:
        admin.groups.alter_offsets(name, {(topic, 0): 4, (topic, 1): 10})
    return name


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


def offsets(bootstrap: str, group: str) -> list[int]:
    with Admin(bootstrap) as admin:
        return [one.offset for one in admin.groups.offsets(group).values()]


def test_groups_are_listed(command: Command, group: str) -> None:
    assert [group, "classic", "Empty", "-"] in command("groups", "list").rows
    listed = json.loads(command("groups", "list", "--json").out)["groups"]
    assert {"group_id": group, "protocol_type": "", "state": "Empty", "type": "classic"} in listed


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_lag_are_described(command: Command, bootstrap: str, topic: str, group: str, protocol: str) -> None:
    with Consumer(
        bootstrap, group_id=group, group_protocol=protocol, auto_commit_interval=None, auto_offset_reset="earliest",
        client_id="cook",
    ) as consumer:  # fmt: skip
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) and len(consumer.assignment) == 2, lambda: "nothing came")
        told = command("groups", "describe", group)
        assert told.code == 0
        (head,) = [row for row in told.rows if row[0] == "group"]
        assert (head[1], head[2], head[3], head[7]) == (group, protocol, "Stable", "1")
        (member,) = [row for row in told.rows if row[0] == "member"]
        assert (member[3], member[5]) == ("cook", "2")
        partitions = [row[1:] for row in told.rows if row[0] == "partition"]
        assert partitions == [
            [topic, "0", "4", "10", "6", member[1], "cook"],
            [topic, "1", "10", "10", "0", member[1], "cook"],
        ]
        as_json = json.loads(command("groups", "describe", group, "--json", "--committed").out)
        assert [one["lag"] for one in as_json["partitions"]] == [6, 0]
        assert as_json["members"][0]["partitions"] == [[topic, 0], [topic, 1]]


def test_lag_of_who_reads_committed_records_ends_where_a_transaction_is_open(
    command: Command, bootstrap: str, topic: str, group: str
) -> None:
    def lags(*arguments: str) -> list[tuple[int, int]]:
        told = json.loads(command("groups", "describe", group, "--json", *arguments).out)
        return [(one["end"], one["lag"]) for one in told["partitions"]]

    with Producer(bootstrap, transactional_id=f"id-{group}") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(topic, b"open", partition=0).result()
        with Producer(bootstrap) as other:
            other.send(topic, b"behind it", partition=0).result()
        assert lags() == [(12, 8), (10, 0)]
        assert lags("--committed") == [(10, 6), (10, 0)]
        producer.commit()
    wait_until(lambda: lags("--committed") == lags() == [(13, 9), (10, 0)], lambda: "the transaction is still open")


def test_tables_in_a_terminal(command: Command, group: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    told = command("groups", "describe", group).out
    assert "committed" in told
    assert topic in told


def test_a_group_that_is_not_there_is_told_in_one_line(command: Command) -> None:
    told = command("groups", "describe", "nobody")
    assert told.code == 1
    assert told.err.startswith("group nobody: GROUP_ID_NOT_FOUND")
    assert len(told.err.splitlines()) == 1
    told = command("groups", "describe", "nobody", "--json")
    assert json.loads(told.out)["error"]["name"] == "GROUP_ID_NOT_FOUND"


def test_the_reasons_of_rebalances_are_told(command: Command, topic: str) -> None:
    name = unique("group")
    assert command("consume", topic, "--group", name, "--max", 1).code == 0
    joined, left = command("groups", "rebalances", name).rows
    assert joined[-1].endswith("joined")
    assert "left" in left[-1]
    answer = json.loads(command("groups", "rebalances", name, "--json").out)
    assert_like(SHAPES["groups rebalances"].sample, answer)
    (first, *_) = answer["rebalances"]
    assert len(first["members"]) == 1


def test_member_ids_are_shortened_in_a_narrow_terminal(
    command: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique("group")
    assert command("consume", topic, "--group", name, "--max", 1).code == 0
    member = json.loads(command("groups", "rebalances", name, "--json").out)["rebalances"][0]["members"][0]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = command("groups", "rebalances", name).out
    assert re.search(rf"{member[:5]}\S*…\S*{member[-4:]}", narrow)
    assert max(map(len, without_colours(narrow).splitlines())) <= 80
    assert member not in "".join(narrow.split()), "the id is not wrapped over several lines"
    monkeypatch.setenv("COLUMNS", "300")
    assert member in command("groups", "rebalances", name).out


# -- reset -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "after"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-offset", "3"], [3, 3]),
        (["--shift", "-2"], [2, 8]),
        (["--shift", "2"], [6, 10]),
        (["--to-time", f"@{TIME_MS + 6500}"], [7, 7]),
        (["--to-time", "2099-01-01T00:00"], [10, 10]),
    ],
)
def test_a_reset_is_said_and_then_done(
    command: Command, bootstrap: str, topic: str, group: str, wish: list[str], after: list[int]
) -> None:
    before = offsets(bootstrap, group)
    said = command("groups", "reset", group, *wish)
    assert [[row[0], row[2], row[3]] for row in said.rows] == [
        [topic, str(was), str(is_now)] for was, is_now in zip(before, after, strict=True)
    ]
    assert "would be reset" in said.err
    assert offsets(bootstrap, group) == before, "nothing was done"
    assert command("groups", "reset", group, *wish, "--execute").code == 0
    assert offsets(bootstrap, group) == after


def test_a_reset_of_one_partition_leaves_the_others(command: Command, bootstrap: str, topic: str, group: str) -> None:
    assert command("groups", "reset", group, "--topic", f"{topic}:1", "--to-earliest", "--execute").code == 0
    assert offsets(bootstrap, group) == [4, 0]


def test_a_reset_from_a_file(command: Command, bootstrap: str, topic: str, group: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text(f"# saved\n{topic},0,7\n{topic}\t1\t2\n")
    said = json.loads(command("groups", "reset", group, "--from-file", path, "--execute", "--json").out)
    assert (said["executed"], [one["to"] for one in said["partitions"]]) == (True, [7, 2])
    assert offsets(bootstrap, group) == [7, 2]


def test_a_group_that_was_never_there_can_be_made_to_begin_somewhere(
    command: Command, bootstrap: str, topic: str
) -> None:
    name = unique("group")
    assert command("groups", "reset", name, "--topic", topic, "--to-offset", 5, "--execute").code == 0
    assert offsets(bootstrap, name) == [5, 5]


def test_a_group_with_members_is_not_reset(command: Command, bootstrap: str, topic: str, group: str) -> None:
    with Consumer(bootstrap, group_id=group, auto_commit_interval=None) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment, lambda: "nothing was assigned")
        said = command("groups", "reset", group, "--to-earliest")
        assert said.code == 0
        assert "warning: " in said.err
        refused = command("groups", "reset", group, "--to-earliest", "--execute")
        assert refused.code == 1
        assert refused.err == f"group {group} has 1 member; end them before it is reset\n"
    assert offsets(bootstrap, group) == [4, 10]


def test_bad_arguments_are_told(command: Command, group: str, tmp_path: Path) -> None:
    assert command("groups", "reset", group, "--topic", "nowhere", "--to-latest").err == "there is no topic 'nowhere'\n"
    bad = tmp_path / "bad"
    bad.write_text("orders;0;1\n")
    for arguments in (["--to-offset", "-1"], ["--shift", "x"], ["--to-time", "soon"], ["--from-file", bad], []):
        with pytest.raises(SystemExit) as ended:
            command("groups", "reset", group, *arguments)
        assert ended.value.code == 2


def test_offsets_and_groups_are_deleted(command: Command, bootstrap: str, topic: str, group: str) -> None:
    assert command("groups", "delete-offsets", group, f"{topic}:0").out == "offsets of 1 partition deleted\n"
    assert offsets(bootstrap, group) == [10]
    assert command("groups", "delete", group).out == "1 group deleted\n"
    told = command("groups", "delete", group)
    assert told.code == 1
    assert "GROUP_ID_NOT_FOUND" in told.err


# -- consume -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_stopped(command: Command, topic: str, protocol: str) -> None:
    name = unique("group")
    given = ("consume", topic, "--group", name, "--group-protocol", protocol)
    first = command(*given, "--max", 7)
    assert (first.code, len(first.rows)) == (0, 7)
    rest = command(*given, "--exit")
    assert (rest.code, len(rest.rows)) == (0, 13)
    assert sorted(int(row[0]) for row in first.rows + rest.rows) == list(range(20))


def test_a_group_shares_all_partitions_from_where_it_stopped(command: Command, topic: str) -> None:
    assert "--partition" in command("consume", topic, "--group", "g", "--partition", 0).err
    assert "groups reset" in command("consume", topic, "--group", "g", "--from", 7).err


# -- plans -------------------------------------------------------------------------------------------------------------

WHERE = TopicPartition("t", 0)
logs = st.integers(0, 20).flatmap(lambda start: st.builds(Log, st.just(start), st.integers(start, start + 20)))


@given(st.integers(-50, 50), st.none() | st.integers(0, 50), logs)
def test_no_plan_leads_out_of_the_log(count: int, before: int | None, log: Log) -> None:
    committed = {} if before is None else {WHERE: before}
    moves = plan(offset_plan.shift(count), committed, {WHERE: log})
    assert bool(moves) == (before is not None)
    for move in moves:
        assert log.start <= move.after <= log.end
        assert bool(move.note) == (move.after != (before or 0) + count)


def test_what_is_outside_of_the_log_is_moved_to_its_nearer_end() -> None:
    assert plan(offset_plan.to_offset(3), {}, {WHERE: Log(5, 9)}) == [Move(WHERE, None, 5, "3 is before the log")]
    assert plan(offset_plan.to_offset(30), {}, {WHERE: Log(5, 9)}) == [Move(WHERE, None, 9, "30 is behind the log")]


def test_a_line_that_cannot_be_read_is_named() -> None:
    with pytest.raises(BadFile, match="line 2"):
        read_offsets(["a,0,1", "a,0"])
