"""A Kafka that keeps every promise, in a few lines: its histories are clean, and stay so in a file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.checker.__main__ import main
from tools.checker.check import check
from tools.checker.files import NoHistory, line, read, write
from tools.checker.history import (
    FAILED,
    OK,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TRANSACTIONAL,
    UNKNOWN,
    Init,
    OffsetCommit,
    OffsetRead,
    Operation,
    Poll,
    Send,
    Settled,
    TransactionBegun,
    TransactionEnded,
)

PARTITIONS = ("a-0", "a-1", "b-0")


class PerfectKafka:
    """Transactional and plain producers, consumers of both kinds, a group; outcomes get lost, promises do not."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.history: list[Operation] = []
        self.logs: dict[str, list[tuple[str, str | None]]] = {name: [] for name in PARTITIONS}
        """Value and transaction; a marker has no value."""
        self.open: dict[str, str] = {}
        self.fates: dict[str, bool] = {}
        self.waiting: list[tuple[str, str]] = []
        """Markers that are to be written: transaction and partition."""
        self.positions: dict[tuple[str, str], int] = {}
        self.offsets: dict[str, int] = {}
        self.pending: dict[str, dict[str, int]] = {}
        self.fenced: dict[str, str] = {}
        for number in range(3):
            self.init(f"id{number}")
        acts = (self.send, self.send, self.send_in_transaction, self.send_in_transaction, self.end, self.poll,
            self.poll, self.write_marker, self.commit_offset, self.read_offset, self.start_again)  # fmt: skip
        for _ in range(steps):
            self.random.choice(acts)()
        self.settle()

    def tick(self) -> tuple[float, float]:
        begin = self.now + self.random.random()
        self.now = begin + self.random.random()
        return begin, self.now

    def init(self, name: str) -> None:
        producer = f"{name}/{len(self.history)}"
        self.history.append(Init(producer, name, OK, *self.tick()))
        self.fenced[name] = producer

    def start_again(self) -> None:
        name = self.random.choice(list(self.fenced))
        before = self.fenced[name]
        if before in self.open:
            self.decide(self.open.pop(before), commit=False)
        self.init(name)

    def outcome(self) -> str:
        return self.random.choice([OK, OK, OK, UNKNOWN])

    def send(self) -> None:
        partition, value = self.random.choice(PARTITIONS), f"v{len(self.history)}"
        outcome = self.random.choice([OK, OK, OK, UNKNOWN, FAILED])
        offset = -1
        if outcome == OK or (outcome == UNKNOWN and self.random.random() < 0.5):
            self.logs[partition].append((value, None))
            offset = len(self.logs[partition]) - 1 if outcome == OK else -1
        self.history.append(Send("plain", partition, value, outcome, *self.tick(), offset=offset, kind="idempotent"))

    def send_in_transaction(self) -> None:
        producer = self.random.choice(list(self.fenced.values()))
        partition, value = self.random.choice(PARTITIONS), f"v{len(self.history)}"
        if producer not in self.open:
            name = f"t{len(self.history)}"
            if any(self.last.get(producer) == one for one, _ in self.waiting):
                return
            self.open[producer] = name
            self.history.append(TransactionBegun(producer, name, *self.tick()))
        name = self.open[producer]
        self.logs[partition].append((value, name))
        send = Send(producer, partition, value, OK, *self.tick(), offset=len(self.logs[partition]) - 1,
            kind=TRANSACTIONAL, transaction=name)  # fmt: skip
        self.history.append(send)
        if self.random.random() < 0.3:
            where = self.random.choice(PARTITIONS)
            at = len(self.history)
            self.history.append(OffsetCommit("g", where, at, OK, *self.tick(), transaction=name))
            self.pending.setdefault(name, {})[where] = at

    @property
    def last(self) -> dict[str, str]:
        return {one.producer: one.transaction for one in self.history if isinstance(one, TransactionEnded)}

    def end(self) -> None:
        if not self.open:
            return
        producer = self.random.choice(list(self.open))
        name, commit, outcome = self.open.pop(producer), self.random.random() < 0.6, self.outcome()
        begin, end = self.tick()
        self.decide(name, commit=commit)
        self.history.append(TransactionEnded(producer, name, commit, outcome, begin, end))

    def decide(self, name: str, *, commit: bool) -> None:
        self.fates[name] = commit
        if commit:
            self.offsets.update(self.pending.get(name, {}))
        for partition, log in self.logs.items():
            if any(one == name for _, one in log):
                self.waiting.append((name, partition))

    def write_marker(self) -> None:
        if self.waiting:
            name, partition = self.waiting.pop(self.random.randrange(len(self.waiting)))
            self.logs[partition].append(("", name))

    def poll(self) -> None:
        isolation = self.random.choice([READ_COMMITTED, READ_UNCOMMITTED])
        self.read_some(isolation, self.random.choice(PARTITIONS), self.random.randrange(1, 9))

    def read_some(self, isolation: str, partition: str, count: int) -> None:
        log, start = self.logs[partition], self.positions.get((isolation, partition), 0)
        end = min(start + count, len(log))
        if isolation == READ_COMMITTED:
            marked = {name for value, name in log if value == ""}
            undecided = [at for at, (value, name) in enumerate(log) if value and name and name not in marked]
            end = min([end, *undecided])
        end = max(start, end)
        records = tuple(
            (at, value)
            for at, (value, name) in enumerate(log[start:end], start=start)
            if value and (isolation == READ_UNCOMMITTED or name is None or self.fates.get(name))
        )
        self.positions[isolation, partition] = end
        self.history.append(Poll(isolation, "1", partition, records, *self.tick(), start, end, isolation))

    def commit_offset(self) -> None:
        partition, outcome, offset = self.random.choice(PARTITIONS), self.outcome(), len(self.history)
        if outcome == OK or self.random.random() < 0.5:
            self.offsets[partition] = offset
        self.history.append(OffsetCommit("g", partition, offset, outcome, *self.tick(), member="m", generation=1))

    def read_offset(self) -> None:
        partition = self.random.choice(PARTITIONS)
        self.history.append(OffsetRead("g", partition, self.offsets.get(partition, -1), *self.tick()))

    def settle(self) -> None:
        for name in list(self.open.values()):
            self.decide(name, commit=False)
        while self.waiting:
            self.write_marker()
        begin, _ = self.tick()
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            for partition in PARTITIONS:
                self.read_some(isolation, partition, 1 << 60)
        self.history.append(Settled(begin, self.now))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 120))
def test_a_history_of_a_kafka_that_keeps_its_promises_is_clean(seed: int, steps: int) -> None:
    assert check(PerfectKafka(seed, steps).history) == []


def test_a_history_in_a_file_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    history = PerfectKafka(5, 300).history
    write(path, history)
    assert read(path) == history
    assert main([str(path)]) == 0
    assert "operations: clean" in capsys.readouterr().out


def test_what_is_wrong_is_printed_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    write(path, [Poll("c", "1", "a-0", ((0, "x"),), 1, 2)])
    assert main([str(path)]) == 1
    out = capsys.readouterr().out
    assert "invented record: 1 (no client sent it)" in out
    assert "Poll(consumer='c'" in out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "line 1: no operation"),
        (b'{"op": "sing"}', "line 1: no operation"),
        (b'{"op": "settled", "begin": 1}', "line 1: no operation"),
        (b'[1]', "line 1: no operation"),
        (line(Init("p", "t", "maybe", 1, 2)), "the outcome is none of"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_told_in_a_line(
    text: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(text)
    with pytest.raises(NoHistory, match=why):
        read(path)
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(tmp_path / "nothing")]) == 2
