"""A cluster in this process: of one test or, in the process of the shared cluster, of all tests."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

from actors.control.admin import AdminRefused
from actors.harness import Cluster, HarnessError
from actors.harness.protocol_faults import ProtocolFault
from actors.serving.kafka.handlers import SERVED
from protocol.apis import CONSUMER_GROUP_HEARTBEAT
from protocol.error_codes import ErrorCode
from protocol.schema.declaration import Array, Struct, struct_of
from tools.testing.kafka import KafkaFixtureError, is_of

__tracebackhide__ = True  # a test is shown its own line, and what is wrong


class LocalBackend:
    """A cluster in this process, of one test."""

    why_not = ""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._faults: dict[int, ProtocolFault] = {}
        self._numbers = itertools.count(1)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        with _told():
            self.cluster.admin.create_topic(name, partitions, replication_factor, configs=configs)

    def add_fault(self, scope: str, kind: str, api: str, options: dict[str, Any]) -> int:  # noqa: ARG002  all is its own
        faults = self.cluster.faults
        arrange: dict[str, Callable[..., ProtocolFault]] = {
            "fail_next": faults.fail_next, "delay": faults.delay, "drop_connection": faults.drop_connection,
        }  # fmt: skip
        number = next(self._numbers)
        with _told():
            self._faults[number] = arrange[kind](api, **options)
        return number

    def struck(self, number: int) -> int:
        if number not in self._faults:
            raise KafkaFixtureError("struck: the test of this fault has ended; ask before")
        return self._faults[number].struck

    def undo_fault(self, number: int) -> None:
        if number in self._faults:  # else the test has ended
            self._faults[number].undo()

    def clients(self) -> dict[str, str]:
        return self.cluster.clients

    def broker_log(self, since: float) -> list[str]:
        beginning = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(since))}.{int(since * 1000) % 1000:03d}Z"
        return [line for line in self.cluster.broker_log() if line >= beginning]

    def leader_history(self, since: float) -> list[str]:
        return [str(change) for change in self.cluster.leader_history() if change.at >= since]

    def forget(self, topics: list[str], faults: list[int]) -> None:
        for number in faults:
            self._faults.pop(number).undo()
        with _told():
            for name in topics:
                try:
                    self.cluster.admin.delete_topic(name)
                except AdminRefused as refused:
                    if refused.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # else the test has deleted it
                        raise


class SharedLocalBackend(LocalBackend):
    """A cluster in this process, of many tests: a fault concerns the requests of one of them."""

    @property
    def operations(self) -> tuple[Callable[..., object], ...]:
        """What other processes may ask for."""
        return (
            self.create_topic, self.add_fault, self.struck, self.undo_fault, self.clients, self.broker_log,
            self.leader_history, self.forget,
        )  # fmt: skip

    def add_fault(self, scope: str, kind: str, api: str, options: dict[str, Any]) -> int:
        given = {name: options[name] for name in ("topic", "client_id") if options[name] is not None}
        for name, value in given.items():
            if not is_of(scope, value):
                raise KafkaFixtureError(f"{kind}: the {name} {value!r} may be another test's; take {scope!r}")
        if not given:
            options = {**options, "topic" if _names_topics(api) else "client_id": _NamesOf(scope)}
        return super().add_fault(scope, kind, api, options)


class _NamesOf(Container[str]):
    """All names that belong to one test."""

    def __init__(self, scope: str) -> None:
        self._scope = scope

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_of(self._scope, name)


def _names_topics(api: str) -> bool:
    """Does each request of this API say which topics it is about?"""
    for served in SERVED:
        if served.name == api and served is not CONSUMER_GROUP_HEARTBEAT:
            request: type = served.request
            return _has_topics(struct_of(request))
    return False


def _has_topics(declared: Struct) -> bool:
    elements = [(field.name, field.type.element) for field in declared.fields if isinstance(field.type, Array)]
    return any("topic" in name or (isinstance(one, Struct) and _has_topics(one)) for name, one in elements)


@contextmanager
def _told() -> Iterator[None]:
    """The same error, whichever way a cluster is asked."""
    try:
        yield
    except (AdminRefused, HarnessError) as error:
        raise KafkaFixtureError(str(error)) from error
