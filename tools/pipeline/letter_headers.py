"""The headers of a dead letter: why, from where, and how many times it was tried. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "dead-letter."
REASON, TOPIC, PARTITION, OFFSET, ATTEMPT = (
    PREFIX + name for name in ("reason", "topic", "partition", "offset", "attempt")
)
Header = tuple[str, bytes | None]


def letter_headers(
    reason: str, topic: str, partition: int, offset: int, before: Iterable[Header] = ()
) -> tuple[Header, ...]:
    """The record's own headers without those of an earlier attempt, and the new ones."""
    given = tuple(before)
    attempts = [value for name, value in given if name == ATTEMPT and value is not None and value.isdigit()]
    told = {REASON: reason, TOPIC: topic, PARTITION: partition, OFFSET: offset,
            ATTEMPT: int(attempts[0]) + 1 if attempts else 1}  # fmt: skip
    own = tuple(header for header in given if not header[0].startswith(PREFIX))
    return (*own, *((name, str(value).encode()) for name, value in told.items()))
