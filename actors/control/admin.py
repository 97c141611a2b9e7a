"""Administration of a cluster through its actors: it asks any broker, and asks again after errors that may pass.

Every operation has an id, so an operation whose answer was lost (its controller died) is asked again and done once. An
operation that makes partitions returns when the broker that was asked can name their leaders.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pykka

from actors.messages.controller import (
    AwaitLeaders,
    DescribeCluster,
    ElectLeaders,
    OperationAnswer,
    Outcome,
    PartitionsCreated,
    SyncMetadata,
    creates_partitions,
)
from actors.messages.replica import group_name
from actors.runtime import Address, LinkLost
from log.machines.metadata.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    MoveReplicas,
    TakeProducerIds,
)
from protocol.error_codes import ErrorCode

TRY_SECONDS = 15.0
LED_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_RETRIABLE = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class AdminRefused(Exception):
    """The cluster refused an operation. `error` is Kafka's code."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(f"{error.name}: {message}")
        self.error = error
        self.message = message


Ask = Callable[..., Any]
"""ask(address, message, timeout=seconds)"""


class Admin:
    """Blocking calls, from any thread but the cluster's own. Each gives the answer's facts."""

    def __init__(self, ask: Ask, brokers: Callable[[], Sequence[int]]) -> None:
        self._ask = ask
        self._brokers = brokers

    def describe(self) -> dict[str, Any]:
        """What a broker knows of the cluster, after it has applied the committed metadata where that is possible."""
        for broker in self._brokers()[:1]:
            self._try(broker, SyncMetadata())
        return self._call(DescribeCluster())

    def topic(self, name: str) -> dict[str, Any]:
        for topic in self.describe()["topics"]:
            if topic["name"] == name:
                found: dict[str, Any] = topic
                return found
        raise AdminRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")

    def group(self, topic: str, partition: int) -> str:
        """The name of a partition's Raft group, by which its replicas are addressed."""
        return group_name(topic, partition, self.topic(topic)["topic_id"])

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        assignment: Sequence[Sequence[int]] = (),
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> dict[str, Any]:
        return self._call(
            CreateTopic(
                _new_id(), name, partitions, replication_factor, tuple(map(tuple, assignment)),
                tuple((configs or {}).items()), validate_only,
            )
        )  # fmt: skip

    def delete_topic(self, name: str) -> dict[str, Any]:
        return self._call(DeleteTopic(_new_id(), name))

    def create_partitions(
        self, name: str, count: int, *, assignment: Sequence[Sequence[int]] = (), validate_only: bool = False
    ) -> dict[str, Any]:
        return self._call(CreatePartitions(_new_id(), name, count, tuple(map(tuple, assignment)), validate_only))

    def alter_configs(
        self, name: str, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> dict[str, Any]:
        """None resets a config to its default."""
        changes = tuple((key,) if value is None else (key, value) for key, value in configs.items())
        return self._call(AlterConfigs(_new_id(), name, changes, validate_only))

    def move(self, topic: str, partition: int, replicas: Sequence[int]) -> dict[str, Any]:
        return self._call(MoveReplicas(_new_id(), topic, partition, tuple(replicas)))

    def cancel_move(self, topic: str, partition: int) -> dict[str, Any]:
        return self._call(MoveReplicas(_new_id(), topic, partition, ()))

    def drain(self, broker: int, *, draining: bool = True) -> dict[str, Any]:
        return self._call(DrainBroker(_new_id(), broker, draining))

    def elect_leaders(self, topic: str = "") -> dict[str, Any]:
        return self._call(ElectLeaders(topic))

    def take_producer_ids(self) -> dict[str, Any]:
        return self._call(TakeProducerIds(_new_id()))

    def _call(self, request: Any) -> dict[str, Any]:
        deadline = time.monotonic() + TRY_SECONDS
        at = 0
        while True:
            brokers = self._brokers()
            outcome = Outcome(ErrorCode.BROKER_NOT_AVAILABLE, "no broker is alive")
            if brokers:
                broker = brokers[at % len(brokers)]
                outcome = self._try(broker, request)
                if outcome.error == ErrorCode.NONE:
                    if creates_partitions(request):
                        self._await_leaders(broker, outcome.facts_as(PartitionsCreated))
                    return {"warnings": list(outcome.warnings), **outcome.facts}
            if (outcome.error not in _RETRIABLE and brokers) or time.monotonic() >= deadline:
                raise AdminRefused(outcome.error, outcome.message)
            at += 1
            time.sleep(_PAUSE_SECONDS)

    def _try(self, broker: int, request: Any) -> Outcome:
        try:
            answer: OperationAnswer = self._ask(Address("controller", "", broker), request, timeout=5.0)
        except (pykka.ActorDeadError, pykka.Timeout, LinkLost) as error:
            return Outcome(ErrorCode.NOT_CONTROLLER, f"broker {broker} did not answer: {error}")
        return answer.outcome

    def _await_leaders(self, broker: int, created: PartitionsCreated) -> None:
        """Wait until this broker can name a leader for each new partition. The partitions exist without leaders too."""
        wait = AwaitLeaders(created.topic_id, created.first, created.partitions, LED_SECONDS)
        with suppress(pykka.ActorDeadError, pykka.Timeout, LinkLost):
            self._ask(Address("controller", "", broker), wait, timeout=LED_SECONDS + 1.0)


def _new_id() -> str:
    return str(uuid.uuid4())
