from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.runtime.errors import FrameError
from actors.runtime.links import read_buffer
from actors.runtime.links.frames import FRAME_BYTES_MAX, LINK_VERSION, Frame, FrameKind, LinkFrameReader, header
from tests.actors.runtime.probes import PATIENT

READ_BYTES = read_buffer._READ_BYTES
Plain = tuple[FrameKind, int, int, bytes, bytes, bytes]

FRAMES = st.lists(
    st.tuples(
        st.sampled_from(FrameKind),
        st.integers(0, 0xFFFF),
        st.integers(0, 2**64 - 1),
        st.binary(max_size=20),
        st.binary(max_size=40),
        st.binary(max_size=20) | st.integers(0, 700).map(lambda size: bytes(index % 251 for index in range(size))),
    ),
    max_size=12,
)
PIECES = st.lists(st.integers(1, 300), min_size=1, max_size=20)


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every border of the reader's buffers comes into play with small frames."""
    monkeypatch.setattr(read_buffer, "_READ_BYTES", 128)
    monkeypatch.setattr(read_buffer, "_LEND_ABOVE", 16)


def to_bytes(frame: Plain) -> bytes:
    kind, message_id, ask_id, address, body, payload = frame
    return header(kind, message_id, ask_id, address, body, len(payload)) + payload


def plain(frame: Frame) -> Plain:
    return (*frame[:4], bytes(frame.body), bytes(frame.payload))


def feed(reader: LinkFrameReader, data: bytes, sizes: list[int]) -> Iterator[Frame]:
    """Put the bytes into the reader in pieces of these sizes, over and over."""
    at = turn = 0
    while at < len(data):
        space = reader.space
        assert len(space) > 0
        piece = data[at : at + min(len(space), sizes[turn % len(sizes)])]
        space[: len(piece)] = piece
        space.release()
        at, turn = at + len(piece), turn + 1
        yield from reader.received(len(piece))


@pytest.mark.usefixtures("small_buffers")
@settings(PATIENT, max_examples=120)
@given(FRAMES, PIECES)
def test_any_frames_in_any_pieces_come_out_as_they_went_in_and_payloads_stay_intact(
    sent: list[Plain], sizes: list[int]
) -> None:
    _check(sent, sizes)


@settings(PATIENT, max_examples=50)
@given(FRAMES, st.lists(st.integers(1, 100_000), min_size=1))
def test_so_they_do_with_buffers_of_the_usual_size(sent: list[Plain], sizes: list[int]) -> None:
    _check(sent * 5, sizes)


def _check(sent: list[Plain], sizes: list[int]) -> None:
    reader = LinkFrameReader()
    came: list[Plain] = []
    kept: list[memoryview] = []
    for frame in feed(reader, b"".join(map(to_bytes, sent)), sizes):
        came.append(plain(frame))
        kept.append(frame.payload)  # as a decoded message would, for ever
    assert came == sent
    assert [bytes(payload) for payload in kept] == [frame[5] for frame in sent]
    assert reader.unfinished == 0


@pytest.mark.usefixtures("small_buffers")
@settings(PATIENT, max_examples=60)
@given(FRAMES, PIECES, st.data())
def test_payloads_that_are_kept_for_a_while_stay_intact_while_others_are_let_go(
    sent: list[Plain], sizes: list[int], data: st.DataObject
) -> None:
    reader = LinkFrameReader()
    kept: dict[int, memoryview] = {}
    for number, frame in enumerate(feed(reader, b"".join(map(to_bytes, sent)) * 2, sizes)):
        kept[number] = frame.payload
        del frame
        for old in data.draw(st.sets(st.sampled_from(sorted(kept)), max_size=2)):
            del kept[old]
        for other, payload in kept.items():
            assert bytes(payload) == sent[other % len(sent)][5]


@pytest.mark.usefixtures("small_buffers")
def test_one_byte_at_a_time_is_enough() -> None:
    sent: list[Plain] = [
        (FrameKind.TELL, 7, 0, b"a@1", b"body", b"p" * size) for size in (0, 1, 15, 16, 17, 127, 128, 129, 500)
    ]
    _check(sent, [1])


@pytest.mark.parametrize("size", [READ_BYTES - 64, READ_BYTES, 3 * READ_BYTES + 17, 5 << 20])
def test_a_frame_larger_than_the_read_buffer_comes_out_whole_and_so_does_what_follows(size: int) -> None:
    large = bytes(range(256)) * (size // 256 + 1)
    _check(
        [
            (FrameKind.TELL, 1, 2, b"a@1", b"b", large[:size]),
            (FrameKind.PING, 0, 0, b"", b"", b""),
            (FrameKind.ASK, 3, 4, b"c@2", b"d", b"e"),
        ],
        [65_536],
    )


def test_a_large_payload_is_not_copied_on_its_way_out() -> None:
    data = to_bytes((FrameKind.TELL, 1, 0, b"a@1", b"", b"x" * 100_000))
    reader = LinkFrameReader()
    space = reader.space
    space[: len(data)] = data
    (frame,) = reader.received(len(data))
    assert frame.payload.obj is space.obj


def test_a_reader_that_lent_its_buffer_leaves_it_alone_until_it_is_given_back() -> None:
    reader = LinkFrameReader()
    data = to_bytes((FrameKind.TELL, 1, 0, b"a@1", b"", b"x" * 200_000))
    kept = [frame.payload for _ in range(20) for frame in feed(reader, data, [1 << 20])]
    assert all(payload == b"x" * 200_000 for payload in kept)
    (last,) = feed(reader, to_bytes((FrameKind.TELL, 1, 0, b"a@1", b"", b"y" * 200_000)), [1 << 20])
    assert last.payload == b"y" * 200_000
    assert all(payload == b"x" * 200_000 for payload in kept)


def test_how_much_of_an_unfinished_frame_is_held_is_known() -> None:
    reader = LinkFrameReader()
    data = to_bytes((FrameKind.TELL, 1, 0, b"a@1", b"body", b"payload"))
    assert list(feed(reader, data[:-3], [1000])) == []
    assert reader.unfinished == len(data) - 3
    assert len(list(feed(reader, data[-3:], [1000]))) == 1
    assert reader.unfinished == 0


def test_frames_are_taken_up_where_an_abandoned_reading_left_them() -> None:
    reader = LinkFrameReader()
    data = b"".join(to_bytes((FrameKind.TELL, number, 0, b"a@1", b"", b"")) for number in range(3))
    space = reader.space
    space[: len(data)] = data
    for frame in reader.received(len(data)):
        assert frame.message_id == 0
        break
    assert [frame.message_id for frame in reader.received(0)] == [1, 2]


# -- nonsense --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16, FRAME_BYTES_MAX + 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_an_absurd_size_is_refused_before_any_memory_is_taken(size: int) -> None:
    reader = LinkFrameReader()
    data = struct.pack(">I", size) + bytes([FrameKind.TELL]) + bytes(40)
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match=f"a frame cannot have {size} bytes"):
            list(feed(reader, data, [1000]))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [0, 77, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    data = bytearray(to_bytes((FrameKind.TELL, 1, 0, b"a@1", b"", b"")))
    data[4] = kind
    with pytest.raises(FrameError, match=f"frame kind {kind}"):
        list(feed(LinkFrameReader(), bytes(data), [1000]))


def test_parts_that_do_not_fit_into_their_frame_are_refused() -> None:
    data = struct.pack(">IBHQHI", 17 + 5, FrameKind.TELL, 1, 0, 3, 3) + b"a@1bo"
    with pytest.raises(FrameError, match=f"3 of 22 bytes: not link version {LINK_VERSION}"):
        list(feed(LinkFrameReader(), data + to_bytes((FrameKind.PING, 0, 0, b"", b"", b"")), [1000]))


def test_a_frame_that_is_too_large_is_not_even_written() -> None:
    with pytest.raises(FrameError, match="over the limit"):
        header(FrameKind.TELL, 1, 0, b"a@1", b"", FRAME_BYTES_MAX)


@pytest.mark.usefixtures("small_buffers")
@settings(PATIENT, max_examples=120)
@given(FRAMES, st.binary(max_size=300), PIECES)
def test_random_bytes_behind_good_frames_are_frames_or_a_frame_error(
    good: list[Plain], noise: bytes, sizes: list[int]
) -> None:
    came: list[Plain] = []
    try:
        for frame in feed(LinkFrameReader(), b"".join(map(to_bytes, good)) + noise, sizes):
            came.append(plain(frame))  # noqa: PERF401  an error in the middle must not lose what came before
    except FrameError:
        pass
    assert came[: len(good)] == good


def test_few_buffers_are_kept_for_later() -> None:
    reader = LinkFrameReader()
    for _ in range(read_buffer._SPARES_MAX + 5):
        reader._keep_buffer(bytearray(10))
    assert len(reader._spare) == read_buffer._SPARES_MAX
    reader._keep_buffer(bytearray(read_buffer._SPARE_BYTES_MAX))
    assert sum(map(len, reader._spare)) <= read_buffer._SPARE_BYTES_MAX
