"""What is reported of inputs and outputs that do not belong together."""

from __future__ import annotations

from tools.chaos.exactly_once import check_exactly_once


def test_every_input_once_is_fine() -> None:
    assert not list(check_exactly_once(["a", "b"], ["t-1<a", "t-2<b"]))


def test_what_is_left_out_doubled_or_invented_is_told() -> None:
    told = list(check_exactly_once(["a", "b", "c"], ["t-1<a", "t-2<a", "t-3<x", "t-4<c"]))
    assert told == ["processed 2 times: 'a'", "processed, but never committed: 'x'", "never processed: 'b'"]
