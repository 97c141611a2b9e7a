"""A running cluster, Barnabas or another one, through Kafka's protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from protocol.error_codes import ErrorCode
from tools.client.admin import Admin
from tools.client.errors import ClientError, KafkaError
from tools.testing.kafka import KafkaFixtureError

__tracebackhide__ = True
LED_SECONDS = 10.0
ANSWER_SECONDS = 15.0
_LOOK_SECONDS = 0.01


class RunningBackend:
    """The cluster with these bootstrap servers."""

    cluster = None

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.why_not = f"{bootstrap} is a running cluster; kafka_cluster_factory() makes one of the test's own"

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        with _told(), self._admin() as admin:
            admin.create_topic(name, partitions=partitions, replication_factor=replication_factor, configs=configs)
            deadline = time.monotonic() + LED_SECONDS
            while not _is_led(admin, name) and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)

    def add_fault(self, scope: str, kind: str, api: str, options: dict[str, Any]) -> int:  # noqa: ARG002
        raise KafkaFixtureError(f"{kind}: {self.why_not}")

    def struck(self, number: int) -> int:
        raise KafkaFixtureError(f"there is no fault {number}: {self.why_not}")

    def undo_fault(self, number: int) -> None:
        raise KafkaFixtureError(f"there is no fault {number}: {self.why_not}")

    def clients(self) -> dict[str, str]:
        return {}

    def broker_log(self, since: float) -> list[str]:  # noqa: ARG002  it has a log of its own
        return []

    def leader_history(self, since: float) -> list[str]:  # noqa: ARG002
        return []

    def forget(self, topics: list[str], faults: list[int]) -> None:  # noqa: ARG002  it takes none
        with _told(), self._admin() as admin:
            for name in topics:
                try:
                    admin.delete_topic(name)
                except KafkaError as refused:
                    if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise

    def _admin(self) -> Admin:
        """A client for one operation: none is connected while the test runs."""
        return Admin(self.bootstrap, client_id="barnabas-pytest", seconds=ANSWER_SECONDS)


def _is_led(admin: Admin, name: str) -> bool:
    topic = admin.describe_topics([name]).get(name)
    return topic is not None and all(one is not None and one.leader is not None for one in topic.partitions)


@contextmanager
def _told() -> Iterator[None]:
    """The same error, whichever way a cluster is asked."""
    try:
        yield
    except ClientError as error:
        raise KafkaFixtureError(str(error)) from error
