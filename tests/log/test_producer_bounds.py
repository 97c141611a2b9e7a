"""How many producers a partition knows. Which ones it forgets follows from its log, so all replicas forget the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log.segment import producer_state
from log.segment.producer_state import PRODUCERS_MAX, ProducerStates, TooManyOpen
from protocol.records.batches import ControlType, read_header
from tests.log.log_model import batch, marker

Written = tuple[int, str]  # a producer, and what it writes: "plain" or "transactional" data, or the "marker"

HISTORIES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["plain", "plain", "transactional", "marker"])), max_size=60
)


def table_after(history: Sequence[Written], table: ProducerStates | None = None, since: int = 0) -> ProducerStates:
    """The table after this history, from a table that has what is in it before `since`."""
    table = ProducerStates() if table is None else table
    for offset, (producer, kind) in enumerate(history):
        if offset < since:
            continue
        if kind == "marker":
            data = marker(ControlType.COMMIT, producer)
            table.end_transaction(read_header(data), offset, data)
        else:
            transactional = kind == "transactional"
            one = read_header(batch(producer=(producer, 0, offset), transactional=transactional))
            table.update(one, offset)
    return table


def open_in(history: Sequence[Written]) -> set[int]:
    kinds: dict[int, list[str]] = {}
    for producer, kind in history:
        kinds.setdefault(producer, []).append(kind)
    return {
        producer
        for producer, told in kinds.items()
        if "transactional" in told[len(told) - told[::-1].index("marker") if "marker" in told else 0 :]
    }


@pytest.fixture
def few_producers(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 3)
    return 3


FEW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(HISTORIES)
def test_of_too_many_producers_those_that_wrote_last_are_known(few_producers: int, history: list[Written]) -> None:
    """And those with open transactions. So it follows from the log, whatever happened to the replica meanwhile."""
    by_last = list(dict.fromkeys(producer for producer, _ in reversed(history)))
    is_open = open_in(history)
    others = [producer for producer in by_last if producer not in is_open]
    expected = is_open | set(others[: max(few_producers - len(is_open), 0)])
    table = table_after(history)
    assert {one.id for one in table} == expected
    assert len(table) <= max(few_producers, len(is_open))


@FEW
@given(HISTORIES, st.data())
def test_a_table_from_a_snapshot_forgets_the_same_producers(
    few_producers: int, history: list[Written], draw: st.DataObject
) -> None:
    since = draw.draw(st.integers(0, len(history)))
    snapshot = ProducerStates.decode(table_after(history[:since]).encode(), "a snapshot")
    assert list(table_after(history, snapshot, since)) == list(table_after(history))
    assert few_producers == 3


@FEW
@given(HISTORIES, st.data())
def test_a_table_from_a_compacted_log_forgets_the_same_producers(
    few_producers: int, history: list[Written], draw: st.DataObject
) -> None:
    """Compaction keeps the last batch of every producer that is known, and everything of open transactions."""
    compacted_to = draw.draw(st.integers(0, len(history)))
    known = {one.id for one in table_after(history[:compacted_to])}
    first_open = table_after(history[:compacted_to]).first_open_offset
    last = {producer: offset for offset, (producer, _) in enumerate(history[:compacted_to])}
    upper = compacted_to if first_open is None else first_open
    gone = {
        offset
        for offset, (producer, _) in enumerate(history[:upper])
        if producer not in known or (last[producer] != offset and history[offset][1] != "marker")
    }
    table = ProducerStates()
    for offset in range(len(history)):
        if offset not in gone:
            table_after(history[: offset + 1], table, offset)
    assert [one.id for one in table] == [one.id for one in table_after(history)]
    assert few_producers == 3


def test_only_so_many_transactions_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "OPEN_MAX", 2)
    table = table_after([(1, "transactional"), (2, "transactional")])
    third = read_header(batch(producer=(3, 0, 0), transactional=True))
    with pytest.raises(TooManyOpen, match="2 transactions are open in this partition"):
        table.check(third)
    assert table.check(read_header(batch(producer=(3, 0, 0)))) is None
    assert table.check(read_header(batch(producer=(2, 0, 2), transactional=True))) is None
    data = marker(ControlType.COMMIT, 1)
    table.end_transaction(read_header(data), 2, data)
    assert table.check(third) is None


def test_a_partition_knows_five_thousand_producers() -> None:
    table = ProducerStates()
    one = read_header(batch(producer=(0, 0, 0)))
    for number in range(PRODUCERS_MAX + 100):
        table.update(one._replace(producer_id=number), number)
    assert [producer.id for producer in table] == list(range(100, PRODUCERS_MAX + 100))
    assert PRODUCERS_MAX == 5000
