"""Work that takes long, in slices: a generator that pauses where other work may continue.

It yields None where it only pauses. It yields a LongCall where something comes that cannot be divided, such as the
compression of megabytes or a sync: a function that changes nothing which others see, and that may be called on another
thread before the generator goes on. If it was not called by then, the generator does so itself. So `finish` needs no
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class LongCall:
    """A call that takes long, whose outcome is kept."""

    __slots__ = ("_error", "_function", "_result", "is_over")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._result: Any = None
        self._error: Exception | None = None
        self.is_over = False

    def run(self) -> None:
        """Call the function, on any thread. What it raises is kept for the generator."""
        try:
            self._result = self._function()
        except Exception as error:  # noqa: BLE001  `outcome` raises it
            self._error = error
        self.is_over = True

    def outcome(self) -> Any:
        if not self.is_over:
            self.run()
        if self._error is not None:
            raise self._error
        return self._result


Slices = Generator[LongCall | None, None, T]


def called(function: Callable[[], T]) -> Slices[T]:
    """What the function returns. It may be called on another thread."""
    call = LongCall(function)
    yield call
    result: T = call.outcome()
    return result


def finish(slices: Slices[T]) -> T:
    """Do all of the work now."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
