"""The endpoints of the leaders that a response names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.serving.context import Serving
    from log.machines.metadata.metadata import Registration


def endpoints(serving: Serving, brokers: Iterable[int]) -> list[Registration]:
    """The registrations of these brokers, as far as they are known."""
    registered = serving.metadata.brokers
    return [registered[broker] for broker in sorted(brokers) if broker in registered]
