"""The walk over the records of a batch accepts what can be read, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.errors import BatchTooLarge, InvalidRecord, ProtocolError
from protocol.records import walk
from protocol.records.record import Record, iterate_records, pass_over, write_records
from protocol.records.shapes import _remembered
from protocol.records.times import record_times
from protocol.records.varint import encode_varint
from protocol.records.walk import RecordWalk, check_records

NOW = 1_700_000_000_000
ELEMENTS_MAX = 1_000_000

KEYS = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=60, max_size=70))
HEADERS = st.lists(st.tuples(st.text(max_size=2), st.one_of(st.none(), st.binary(max_size=2))), max_size=3).map(tuple)
TIMESTAMPS = st.one_of(st.integers(NOW, NOW + 300), st.integers(0, 1 << 61))


@st.composite
def many_records(draw: st.DrawFn) -> list[Record]:
    """Runs of records of the same shape, of lengths at which offset deltas get longer, and others between them."""
    made: list[Record] = []
    for _ in range(draw(st.integers(1, 4))):
        key, value, headers = draw(KEYS), draw(KEYS), draw(HEADERS)
        times = draw(st.lists(TIMESTAMPS, min_size=1, max_size=3))
        for at in range(draw(st.sampled_from([1, 2, 5, 16, 30, 64, 70, 200]))):
            made.append(Record(len(made), times[at % len(times)], key, value, headers))
    return made


def is_good(data: bytes, count: int, base_timestamp: int) -> bool:
    """Does the reader that makes records read `data`, and find no gap?"""
    try:
        made = list(iterate_records(data, count, 0, base_timestamp, None))
    except ProtocolError:
        return False
    return [one.offset for one in made] == list(range(count))


def is_accepted(data: bytes, count: int, base_timestamp: int) -> bool:
    """In one step, or in many small ones, which find the same."""
    found = problem(data, count, base_timestamp, count)
    if count < 1000:
        assert problem(data, count, base_timestamp, 17) == found
    return found is None


def problem(data: bytes, count: int, base_timestamp: int, step: int) -> str | None:
    try:
        walk = RecordWalk(data, count, base_timestamp, elements_max=ELEMENTS_MAX)
        while not walk.step(step):
            pass
    except InvalidRecord as error:
        return str(error)
    return None


def one_record_at_a_time(data: bytes, count: int, base_timestamp: int) -> str | None:
    """What a walk finds that takes no runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_RUN_MIN", 1 << 30)
        return problem(data, count, base_timestamp, count)


@given(many_records())
def test_what_is_written_is_accepted(made: list[Record]) -> None:
    base = made[0].timestamp
    data = bytes(write_records(made, 0, base))
    keyless: list[int] = []
    check_records(data, len(made), base, elements_max=ELEMENTS_MAX, keyless=keyless)
    assert keyless == [at for at, one in enumerate(made) if one.key is None]
    assert list(record_times(data, len(made), base)) == [(one.offset, one.timestamp) for one in made]


@given(many_records(), st.randoms(use_true_random=False))
def test_damage_is_accepted_exactly_if_it_can_be_read(made: list[Record], rng: random.Random) -> None:
    base = made[0].timestamp
    good = bytes(write_records(made, 0, base))
    for _ in range(10):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 3)):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF, rng.randrange(256)])
        count = len(made) + rng.choice([0, 0, 0, 0, 1, -1])
        assert is_accepted(bytes(data), count, base) == is_good(bytes(data), count, base)


@given(many_records(), many_records(), st.randoms(use_true_random=False))
def test_remembered_shapes_change_nothing(others: list[Record], made: list[Record], rng: random.Random) -> None:
    """Shapes of other batches are guesses: with them, the same bytes are accepted, for the same reasons, as without."""
    base = made[0].timestamp
    good = bytes(write_records(made, 0, base))
    for _ in range(5):
        data = bytearray(good)
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0x81, rng.randrange(256)])
        _remembered.clear()
        expected = one_record_at_a_time(bytes(data), len(made), base)
        assert problem(bytes(data), len(made), base, len(made)) == expected
        check_records(
            bytes(write_records(others, 0, others[0].timestamp)), len(others), others[0].timestamp,
            elements_max=ELEMENTS_MAX,
        )  # fmt: skip
        assert problem(bytes(data), len(made), base, len(made)) == expected


@st.composite
def usual_records(draw: st.DrawFn) -> list[Record]:
    """Records of different lengths, most of which have the form that takes two looks."""
    keys = st.one_of(st.none(), st.binary(max_size=9), st.binary(min_size=62, max_size=66))
    sizes = st.one_of(st.integers(60, 130), st.sampled_from([0, 63, 64, 8000, 8191, 8192]))
    count = draw(st.sampled_from([1, 2, 20, 63, 64, 65, 150]))
    seen = draw(st.lists(st.tuples(keys, sizes, st.sampled_from([0, 1, 63, 64, -1])), min_size=1, max_size=7))
    made = [(at, *seen[at * at % len(seen)]) for at in range(count)]
    return [Record(at, NOW + (since if at else 0), key, bytes(size)) for at, key, size, since in made]


@given(usual_records(), st.randoms(use_true_random=False))
def test_usual_records_are_accepted_exactly_if_they_can_be_read(made: list[Record], rng: random.Random) -> None:
    good = bytes(write_records(made, 0, NOW))
    keyless: list[int] = []
    walk = RecordWalk(good, len(made), NOW, elements_max=ELEMENTS_MAX, keyless=keyless)
    while not walk.step(50):
        pass
    assert keyless == [at for at, one in enumerate(made) if one.key is None]
    assert walk.last_timestamp == made[-1].timestamp
    walk = RecordWalk(good, len(made), NOW, elements_max=ELEMENTS_MAX)
    assert walk.step(len(made))
    assert walk.last_timestamp == made[-1].timestamp
    begins = [len(write_records(made[:number], 0, NOW)) for number in {0, len(made) // 2, len(made) - 1}]
    for _ in range(10):
        data = bytearray(good)
        at = rng.choice(begins) + rng.randrange(12)
        data[at % len(data)] = rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF, rng.randrange(256)])
        assert is_accepted(bytes(data), len(made), NOW) == is_good(bytes(data), len(made), NOW)
        cut = bytes(data[: -rng.randrange(1, 200)])
        assert is_accepted(cut, len(made), NOW) == is_good(cut, len(made), NOW)


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("since", [0, 100])
def test_every_byte_that_states_a_length_is_looked_at_in_records_of_different_lengths(
    key: bytes | None, since: int
) -> None:
    made = [Record(at, NOW + since, key, bytes(100 + at * 7 % 5)) for at in range(90)]
    good = bytes(write_records(made, 0, NOW))
    for number in (1, 5, 40, 63, 64, 70, 89):
        begin, end = (len(write_records(made[:until], 0, NOW)) for until in (number, number + 1))
        for at in (*range(begin, begin + 13), end - 1):
            for byte in {0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, good[at] ^ 0x80, good[at] ^ 1, good[at] ^ 2}:
                data = bytearray(good)
                data[at] = byte
                accepted = problem(bytes(data), len(made), NOW, len(made)) is None
                assert accepted == is_good(bytes(data), len(made), NOW), (number, at - begin, byte)


def test_few_shapes_are_remembered() -> None:
    for size in range(3000):
        made = [Record(at, NOW, None, bytes(size)) for at in range(12)]
        check_records(bytes(write_records(made, 0, NOW)), 12, NOW, elements_max=ELEMENTS_MAX)
    assert 0 < len(_remembered) <= 1024


@pytest.mark.parametrize("count", [63, 64, 65, 100, 8191, 8192, 8193, 16_500])
def test_every_byte_that_states_a_length_is_looked_at_in_every_record(count: int) -> None:
    """Also in runs of equal records, however long."""
    made = [Record(at, NOW, b"key", bytes(100), (("h", b"1"),)) for at in range(count)]
    good = bytes(write_records(made, 0, NOW))
    assert is_accepted(good, count, NOW)
    for number in {1, 5, 40, 62, 63, 64, 8191, 8192, count - 2, count - 1} & set(range(count)):
        begin, size = len(write_records(made[:number], 0, NOW)), len(write_records([made[number]], 0, NOW))
        for at in (at for at in range(begin, begin + size) if good[at]):
            data = bytearray(good)
            data[at] ^= 2
            assert is_accepted(bytes(data), count, NOW) == is_record(data[begin : begin + size], number)


def is_record(data: bytearray, number: int) -> bool:
    """Is this the record with this offset delta?"""
    try:
        (made,) = iterate_records(bytes(data), 1, 0, NOW, None)
    except ProtocolError:
        return False
    return made.offset == number


def test_a_null_key_is_found_however_it_is_written() -> None:
    """Minus one may be written in more bytes than it needs."""
    body = b"\0\0%s\x81\x00\x00\x00"
    for count in (3, 60):
        records = b"".join(encode_varint(len(one)) + one for one in (body % encode_varint(at) for at in range(count)))
        keyless: list[int] = []
        check_records(records, count, NOW, elements_max=ELEMENTS_MAX, keyless=keyless)
        assert keyless == list(range(count))


@pytest.mark.parametrize("shapes", [1, 2, 3])
def test_elements_have_a_bound(shapes: int) -> None:
    made = [Record(at, NOW, None, bytes(at % shapes), (("a", None), ("b", None))) for at in range(1000)]
    data = bytes(write_records(made, 0, NOW))
    check_records(data, 1000, NOW, elements_max=3000)
    with pytest.raises(BatchTooLarge):
        check_records(data, 1000, NOW, elements_max=2999)
    with pytest.raises(BatchTooLarge):
        check_records(data, 1000, NOW, elements_max=999)


@given(st.binary(max_size=40), st.integers(0, 3))
@example(b"\x0e\0\0\0\x01\x01\0\0", 1)
def test_any_bytes_are_accepted_exactly_if_they_can_be_read(data: bytes, count: int) -> None:
    assert is_accepted(data, count, NOW) == is_good(data, count, NOW)
    try:
        times = list(record_times(data, count, NOW))
    except ProtocolError:
        assert not is_good(data, count, NOW)
    else:
        assert len(times) == count


@pytest.mark.parametrize("first", [0, 63, 64, 8191, 8192, 19_999, 20_000])
def test_times_are_those_of_the_records_from_an_offset_on(first: int) -> None:
    made = [Record(at, NOW + (at * 37) % 9000, None, b"") for at in range(20_000)]
    data = bytes(write_records(made, 0, NOW))
    expected = [(100 + one.offset, one.timestamp) for one in made[first:]]
    assert list(record_times(data, 20_000, NOW, 100, 100 + first)) == expected
    begin = (0, 0)
    for end in (first // 2, 20_000):
        begin = pass_over(data, first, begin, end, 20_000)
        assert begin[0] == min(first, end)
    made_lazily = iterate_records(data, 20_000, 100, NOW, None, begin)
    assert [(one.offset, one.timestamp) for one in made_lazily] == expected


@pytest.mark.parametrize("base", [-(1 << 63), (1 << 63) - 1])
def test_a_base_timestamp_at_the_end_of_the_range_is_refused(base: int) -> None:
    with pytest.raises(InvalidRecord, match="base timestamp"):
        check_records(b"", 0, base, elements_max=1)
