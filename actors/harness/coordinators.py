"""The coordinators and the cleaners of a cluster, as far as a test asks them to do what is otherwise due later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pykka

from actors.control.admin import Admin, AdminRefused
from actors.harness.errors import HarnessError
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    CalendarMoved,
    EndSession,
    SessionEnded,
    coordinator_address,
    partition_of,
)
from actors.partition.cleaner import CleanNow
from actors.runtime import Address, AnyRef, LinkLost
from protocol.error_codes import ErrorCode

PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = 0.01
CLEAN_SECONDS = 60.0


class Coordinators:
    """See the module's docstring."""

    def __init__(self, admin: Admin, leader: Callable[[str, int], int], ref: Callable[[Address], AnyRef]) -> None:
        self._admin = admin
        self._leader = leader
        self._ref = ref

    def end_session(self, group: str, member: str) -> None:
        """End the session of one member of a consumer group."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            ended = self._ask_coordinator_of(group, EndSession(group, member))
            if ended.error == ErrorCode.NONE:
                return
            if ended.error == ErrorCode.UNKNOWN_MEMBER_ID:
                there = ", ".join(ended.members) or "none"
                raise HarnessError(f"expire: group {group} has no one member {member!r}; its members: {there}")
            if time.monotonic() >= deadline:
                error = ErrorCode(ended.error).name
                raise HarnessError(f"expire: group {group} did not let {member!r} go: {error}")
            time.sleep(PAUSE_SECONDS)

    def look_at_deadlines(self, alive: Iterable[int]) -> None:
        """Have all coordinators on these brokers do what is due by the calendar."""
        described = {topic["name"]: topic["partitions"] for topic in self._admin.describe()["topics"]}
        coordinators = [
            coordinator_address(name, one["partition"], one["leader"])
            for name in (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
            for one in described.get(name, ())
            if one["leader"] in alive
        ]
        self._ask_all(coordinators, CalendarMoved())

    def clean(self, alive: Iterable[int]) -> None:
        """Apply retention and compact the logs on these brokers."""
        self._ask_all([Address("cleaner", "", broker) for broker in alive], CleanNow())

    def _ask_coordinator_of(self, group: str, message: EndSession) -> SessionEnded:
        try:
            number = partition_of(group, len(self._admin.topic(GROUPS_TOPIC)["partitions"]))
        except AdminRefused:  # there is no such topic before the first group
            return SessionEnded(ErrorCode.UNKNOWN_MEMBER_ID)
        coordinator = self._ref(coordinator_address(GROUPS_TOPIC, number, self._leader(GROUPS_TOPIC, number)))
        try:
            answer: SessionEnded = coordinator.ask(message, timeout=PATIENCE_SECONDS)
        except (pykka.ActorDeadError, LinkLost):
            return SessionEnded(ErrorCode.NOT_COORDINATOR)
        return answer

    def _ask_all(self, addresses: Iterable[Address], message: object) -> None:
        """Ask these actors, and wait until those that live have answered."""
        asked: list[Any] = [self._ref(one).ask(message, block=False, timeout=CLEAN_SECONDS) for one in addresses]
        for future in asked:
            with suppress(pykka.ActorDeadError, LinkLost):
                future.get()
