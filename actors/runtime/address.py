"""Names of actors that mean the same in every process: `replica/orders-3@2`, `controller@1`.

kind, optionally `/name`, then `@` and the broker on which the actor lives. Addresses travel between processes;
refs never do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter

from attrs import field

from actors.runtime.errors import AddressError
from protocol.late_attrs import frozen

_FORM = re.compile(r"(?P<kind>[a-z][a-z0-9_]*)(?:/(?P<name>[^@\s\ud800-\udfff]+))?@(?P<broker>-?\d{1,10})")

LAUNCHER_ID = -1
"""The broker id under which the launcher itself takes part; real brokers count from 0."""


def name_of(broker: int) -> str:
    """The name of the node with this id in log lines."""
    return "the launcher" if broker == LAUNCHER_ID else f"broker {broker}"


@frozen(slots=True)
class Address:
    """Where an actor lives and what it is called there."""

    kind: str
    name: str
    broker: int
    encoded: bytes = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        text = str(self)
        if _FORM.fullmatch(text) is None or len(text.encode()) > 0xFFFF:
            raise AddressError(f"{text[:300]!r} is no actor address; write kind@broker or kind/name@broker")
        object.__setattr__(self, "encoded", text.encode())

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}@{self.broker}" if self.name else f"{self.kind}@{self.broker}"

    @classmethod
    def parse(cls, text: str) -> Address:
        match = _FORM.fullmatch(text)
        if match is None:
            raise AddressError(f"{text[:300]!r} is no actor address; write kind@broker or kind/name@broker")
        return cls(match["kind"], match["name"] or "", int(match["broker"]))


_FIELDS = attrgetter("kind", "name", "broker")


def in_order(addresses: Iterable[Address]) -> list[Address]:
    """Sort them, always in the same order.

    Addresses have no comparison of their own: that of attrs takes 20 µs for each, and thousands are sorted when a link
    is lost.
    """
    return sorted(addresses, key=_FIELDS)
