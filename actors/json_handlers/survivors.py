"""survivors: what every replica of a partition has, for an operator who asks why nobody leads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import asdict

from actors.json_handlers.handler import Handler
from actors.replica_messages import DescribeSurvivor, group_name, replica_address
from protocol.error_codes import ErrorCode
from protocol.json_fields import Field, Fields, whole, word

if TYPE_CHECKING:
    from actors.json_connection import Call
    from actors.runtime import Future

_ASK_SECONDS = 3.0


def _survivors(call: Call, name: str, number: int, _request_id: str) -> None:
    """It may be sent again: nothing is changed."""
    topic = call.serving.metadata.topic(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        call.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {number} of a topic {name!r}")
        return
    keepers, group = topic.partitions[number].keepers, group_name(topic.name, number, topic.id)
    told: list[dict[str, Any]] = []
    answers = 0

    def answered(future: Future[Any]) -> None:
        nonlocal answers
        answers += 1
        if future.exception is None:
            told.append(asdict(future.get()))
        if answers == len(keepers):
            present = {one["broker"] for one in told}
            call.answer(
                {
                    "survivors": sorted(told, key=lambda one: (-one["last_epoch"], -one["end_offset"], one["broker"])),
                    "missing": [broker for broker in keepers if broker not in present],
                }
            )

    for broker in keepers:
        call.connection.ask(replica_address(group, broker), DescribeSurvivor(), answered, timeout=_ASK_SECONDS)


SURVIVORS = Handler(
    Fields({"topic": Field(word), "partition": Field(whole), "request_id": Field(word, "")}), _survivors
)
