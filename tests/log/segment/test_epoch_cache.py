"""Which leader epoch wrote which offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import DamagedFile, OutOfOrderAppend
from log.segment.epoch_cache import EpochCache, EpochEntry


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


def entries(of: EpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in of]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=20))
def test_it_knows_the_epoch_of_every_offset(steps: list[tuple[int, int]]) -> None:
    made, written, epoch = EpochCache(), list[int](), 0
    for more, count in steps:
        epoch += more
        made.assign(epoch, len(written))
        written += [epoch] * count
    assert made.latest == (written[-1] if written else -1)
    for offset, expected in enumerate(written):
        assert made.epoch_at(offset) == expected
    for wanted in range(-1, epoch + 2):
        known = [one for one in written if one <= wanted]
        end = sum(1 for one in written if one <= wanted)
        assert made.end_of(wanted, len(written)) == ((known[-1], end) if known else (-1, -1))
    assert entries(EpochCache.decode(made.encode(), "path")) == entries(made)


def test_epochs_do_not_go_back() -> None:
    with pytest.raises(OutOfOrderAppend, match="epoch 3 after epoch 5 at offset 10"):
        cache((5, 0)).assign(3, 10)


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    made = cache((1, 0), (2, 5), (3, 5))
    assert entries(made) == [(1, 0), (3, 5)]


@pytest.mark.parametrize(
    ("offset", "left"),
    [(0, []), (1, [(1, 0)]), (5, [(1, 0)]), (6, [(1, 0), (2, 5)]), (10, [(1, 0), (2, 5), (4, 9)])],
)
def test_what_was_cut_is_forgotten(offset: int, left: list[tuple[int, int]]) -> None:
    made = cache((1, 0), (2, 5), (4, 9))
    made.cut_from(offset)
    assert entries(made) == left
    assert made.changed == (len(left) < 3)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, [(1, 0), (2, 5), (4, 9)]),
        (5, [(1, 0), (2, 5), (4, 9)]),
        (6, [(2, 5), (4, 9)]),
        (9, [(2, 5), (4, 9)]),
        (10, [(4, 9)]),
        (99, [(4, 9)]),
    ],
)
def test_a_raised_log_start_keeps_the_epoch_of_the_record_before_it(offset: int, left: list[tuple[int, int]]) -> None:
    made = cache((1, 0), (2, 5), (4, 9))
    made.cut_before(offset)
    assert entries(made) == left


def test_the_file_is_kafkas() -> None:
    assert cache((1, 0), (3, 70)).encode() == b"0\n2\n1 0\n3 70\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0\n1\n",
        b"0\n2\n1 0\n",
        b"0\n1\n1 0 0\n",
        b"0\n1\n1\n",
        b"0\n1\nx y\n",
        b"\xff\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n2\n1 9\n2 5\n",
        b"0\n2\n1 0\n1 5\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n1 -5\n",
    ],
)
def test_a_damaged_file_is_told(data: bytes) -> None:
    with pytest.raises(DamagedFile, match="the-path"):
        EpochCache.decode(data, "the-path")
