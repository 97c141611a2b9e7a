"""Log lines about what clients do, at a bounded rate: a client that does it all day must not fill the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    from actors.runtime.clock import Clock

SECONDS = 10.0


class Seldom:
    """At most one line of a kind in SECONDS, with how often it was so since the line before."""

    def __init__(self, log: logging.LoggerAdapter[logging.Logger], clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._said_at: dict[str, float] = {}
        self._since: dict[str, int] = {}

    def warn(self, kind: str, message: str, *args: object) -> None:
        """`kind` is one of a few words of the program's own, never of a client's."""
        self._since[kind] = since = self._since.get(kind, 0) + 1
        now = self._clock.now()
        if kind in self._said_at and now < self._said_at[kind] + SECONDS:
            return
        self._said_at[kind], self._since[kind] = now, 0
        more = f" ({since - 1} more since the last such line)" if since > 1 else ""
        self._log.warning(message + "%s", *args, more)
