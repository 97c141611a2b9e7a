"""Records and batches as hypothesis makes them, in few draws each: its time goes into drawing, not into our code."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import settings
from hypothesis import strategies as st

from protocol.records.batches import Record, build_batch
from protocol.records.compression import Codec
from tests.protocol.golden import LIBRDKAFKA

unhurried = settings(deadline=None)

INT32_MAX = (1 << 31) - 1
codecs = st.sampled_from(list(Codec))
fields = st.none() | st.binary(max_size=100)
headers = st.just(()) | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(
    tuple
)
timestamps = st.integers(-1, (1 << 62) - 1)
steps = st.integers(1, 2) | st.integers(1, 100_000)
parts = st.tuples(steps, timestamps, fields, fields, headers)


def record_lists(*, base_offset: int = 0, min_size: int = 0) -> st.SearchStrategy[list[Record]]:
    """Records whose offsets rise from `base_offset` on, with gaps."""

    def placed(
        drawn: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    ) -> list[Record]:
        offsets = accumulate((part[0] for part in drawn), initial=base_offset)
        return [Record(offset, *part[1:]) for offset, part in zip(offsets, drawn, strict=False)]

    return st.lists(parts, min_size=min_size, max_size=5).map(placed)


batches = st.builds(
    lambda kept, codec, append_time: bytes(build_batch(kept, codec=codec, append_time=append_time)),
    record_lists(),
    codecs,
    st.none() | timestamps,
)


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """A batch with a few bytes changed, cut out or put in, header included."""
    data = bytearray.fromhex(LIBRDKAFKA[draw(codecs)])
    for _ in range(draw(st.integers(1, 3))):
        damage(data, draw(st.integers(0, len(data))), draw(st.integers(0, 255)), draw(st.integers(0, 3)))
    return bytes(data)


def damage(data: bytearray, at: int, byte: int, how: int) -> None:
    """Change, put in or cut out a byte, or cut off all from there on."""
    match how:
        case 0:
            data[at : at + 1] = bytes([byte])
        case 1:
            data[at:at] = bytes([byte])
        case 2:
            del data[at : at + 1 + byte % 8]
        case _:
            del data[at:]
