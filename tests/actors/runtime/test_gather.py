"""Ask many, go on when all have answered."""

from __future__ import annotations

import gc
import weakref

import pytest

from actors.runtime import Gather


def test_it_goes_on_once_when_everything_is_done() -> None:
    done: list[str] = []
    gather = Gather(lambda: done.append("all"))
    for _ in range(3):
        gather.begin()
    gather.done()
    for _ in range(2):
        gather.done()
    assert done == []
    gather.done()
    assert done == ["all"]


def test_an_answer_that_comes_at_once_does_not_end_it_too_early() -> None:
    done: list[str] = []
    gather = Gather(lambda: done.append("all"))
    for _ in range(2):
        gather.begin()
        gather.done()
        assert done == []
    gather.done()
    assert done == ["all"]


def test_it_goes_on_if_there_is_nothing_to_ask() -> None:
    done: list[str] = []
    Gather(lambda: done.append("all")).done()
    assert done == ["all"]


def test_what_is_done_cannot_be_done_again_nor_begun() -> None:
    gather = Gather(lambda: None)
    gather.done()
    with pytest.raises(AssertionError, match="everything is done already"):
        gather.begin()
    with pytest.raises(AssertionError, match="more is done than was begun"):
        gather.done()


def test_a_request_that_is_done_is_freed_without_the_garbage_collector() -> None:
    class Request:
        def __init__(self) -> None:
            self.gather = Gather(self.answer)

        def answer(self) -> None:
            pass

    gc.disable()
    try:
        request = Request()
        seen = weakref.ref(request)
        request.gather.done()
        del request
        assert seen() is None
    finally:
        gc.enable()
