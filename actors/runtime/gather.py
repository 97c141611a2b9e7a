"""Ask many, go on when all have answered.

    gather = Gather(then)
    for one in many:
        gather.begin()
        ask(one, lambda answer: gather.done())
    gather.done()

The asker's own `done` comes after the last `begin`. So an answer that comes at once does not end it too early, and
`then` is called also if there was nothing to ask.
"""

from __future__ import annotations

from collections.abc import Callable


class Gather:
    """Counts what is begun and what is done, and calls `then` once, when nothing is left."""

    __slots__ = ("_open", "_then")

    def __init__(self, then: Callable[[], object]) -> None:
        self._then: Callable[[], object] | None = then
        self._open = 1

    def begin(self) -> None:
        """One more has to be done."""
        assert self._open, "everything is done already"
        self._open += 1

    def done(self) -> None:
        """One of them is done, or everything is begun."""
        self._open -= 1
        assert self._open >= 0, "more is done than was begun"
        if not self._open:
            then, self._then = self._then, None  # whoever made this is usually in `then`, and must not be kept by it
            assert then is not None
            then()
