"""survivors: what every replica of a partition has, for an operator who asks why it has no leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import asdict

from actors.messages.replica import DescribeSurvivor, SurvivorFacts, group_name, replica_address
from actors.runtime import Gather
from actors.serving.json.handlers.handler import Handler
from protocol.error_codes import ErrorCode
from protocol.json.fields import Field, Fields, whole, word

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.json.connection import JsonCall
    from log.machines.metadata.metadata import PartitionState

_ASK_SECONDS = 3.0
Told = Callable[["PartitionState", list[SurvivorFacts]], None]


def ask_survivors(call: JsonCall, name: str, number: int, then: Told) -> None:
    """Ask every broker that keeps the partition; `then` gets those that answer, the one with the best log first."""
    topic = call.serving.metadata.topic(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        call.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {number} of a topic {name!r}")
        return
    partition, group = topic.partitions[number], group_name(topic.name, number, topic.id)
    told: list[SurvivorFacts] = []

    def all_answered() -> None:
        then(partition, sorted(told, key=lambda one: (-one.last_epoch, -one.end_offset, one.broker)))

    gather = Gather(all_answered)

    def answered(future: Future[Any]) -> None:
        if future.exception is None:
            told.append(future.get())
        gather.done()

    for broker in partition.keepers:
        gather.begin()
        call.connection.ask(replica_address(group, broker), DescribeSurvivor(), answered, timeout=_ASK_SECONDS)
    gather.done()


def _survivors(call: JsonCall, name: str, number: int, _request_id: str) -> None:
    """The request id has no meaning: nothing is changed."""

    def tell(partition: PartitionState, told: list[SurvivorFacts]) -> None:
        present = {one.broker for one in told}
        call.answer(
            {
                "survivors": [asdict(one) for one in told],
                "generation": partition.generation,
                "missing": [broker for broker in partition.keepers if broker not in present],
            }
        )

    ask_survivors(call, name, number, tell)


SURVIVORS = Handler(
    Fields({"topic": Field(word), "partition": Field(whole), "request_id": Field(word, "")}), _survivors
)
