"""recover: an operator accepts a loss, and the survivors of a partition go on without its other replicas.

Nothing is given up as long as there is a leader that a majority answers. Only replicas that answer now can be
survivors: what an operator has seen of them is what the next generation begins with (log/raft/generation.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.serving.json.handlers.survivors import ask_survivors
from actors.serving.json.operations import RECOVER, request_id
from protocol.error_codes import ErrorCode
from protocol.json.fields import Field, Fields, brokers, whole, word
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.messages.replica import SurvivorFacts
    from actors.serving.json.connection import JsonCall
    from log.machines.metadata.metadata import PartitionState
    from protocol.json.lines import Facts


@frozen(slots=True)
class Recover:
    """The operation of the dialect."""

    fields: Fields = Fields(
        {
            "topic": Field(word),
            "partition": Field(whole),
            "survivors": Field(brokers, ()),
            "request_id": Field(request_id, ""),
        }
    )

    def begin(self, call: JsonCall, given: Facts) -> None:
        topic, number, named, known_id = self.fields.read(given)
        is_repeated = bool(known_id) and call.serving.metadata.answer_to(known_id) is not None

        def decide(partition: PartitionState, told: list[SurvivorFacts]) -> None:
            survivors = tuple(named) or tuple(one.broker for one in told if one.is_voter)
            refusal = None if is_repeated else _refusal(f"{topic}-{number}", partition, told, survivors)
            if refusal is not None:
                call.refuse(*refusal)
                return
            seen = {
                "generation": partition.generation,
                "begun": max((one.generation for one in told if one.broker in survivors), default=0),
                "heard": max((one.latest_generation for one in told), default=0),
            }
            RECOVER.begin(call, {**given, **seen, "survivors": list(survivors)})

        ask_survivors(call, topic, number, decide)


def _refusal(
    name: str, partition: PartitionState, told: Sequence[SurvivorFacts], survivors: tuple[int, ...]
) -> tuple[ErrorCode, str] | None:
    # A leader of a generation that the metadata has lost is followed by no other replica until this partition recovers.
    leaders = [one.broker for one in told if one.leads and one.generation <= partition.generation]
    if leaders:
        text = f"{name} has a leader, broker {leaders[0]}, that a majority answers; nothing has to be given up"
        return ErrorCode.ELECTION_NOT_NEEDED, text
    if not survivors:
        text = (
            f"no replica that votes for {name} can be reached; start a broker that keeps it "
            f"({', '.join(map(str, partition.keepers))}), or name the survivors, also if they have lost everything"
        )
        return ErrorCode.REPLICA_NOT_AVAILABLE, text
    known = {one.broker: one.generation for one in told}
    for broker in survivors:
        if broker in partition.keepers and broker not in known:
            text = f"broker {broker} cannot be reached; start it, or leave it out and lose what only it has"
            return ErrorCode.REPLICA_NOT_AVAILABLE, text
        if known.get(broker, partition.generation) < partition.generation:
            text = f"broker {broker} has not heard yet of generation {partition.generation} of {name}; try again"
            return ErrorCode.REPLICA_NOT_AVAILABLE, text
    return None
