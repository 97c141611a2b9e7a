"""Work in another thread: the actor that asked for it hears how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from actors.raft.background import ThreadBackground


class Loop:
    """A scheduler that calls at once, from whichever thread."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()
        self.ended.set()


def test_what_fails_is_told_and_what_follows_is_done() -> None:
    loop, outcomes = Loop(), list[BaseException | None]()
    background = ThreadBackground(cast("Any", loop), "test")

    def fail() -> None:
        raise ValueError("it failed")

    background.submit(fail, outcomes.append)
    background.submit(lambda: None, outcomes.append)
    background.close()
    assert [repr(outcome) for outcome in outcomes] == ["ValueError('it failed')", "None"]
