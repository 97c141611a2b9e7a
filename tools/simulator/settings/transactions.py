"""What a seed stands for where transactions are concerned. It draws from a generator of its own."""

from __future__ import annotations

import random

from attrs import evolve, frozen

CLASSIC, NEW = "classic", "v2"
SHARE = 1 / 3
"""Of the seeds that have transactions at all."""


@frozen(slots=True)
class TransactionalMember:
    """One client, with everything that its lives have in common."""

    name: str
    transactional_id: str
    protocol: str
    timeout_ms: int
    group: str | None = None
    """Of one that reads, transforms and writes: where it keeps how far it has read."""

    @property
    def is_new(self) -> bool:
        return self.protocol == NEW


@frozen(slots=True)
class TransactionSettings:
    """The transactions of a run."""

    members: tuple[TransactionalMember, ...]
    partitions: int
    """Of the topic that they write to."""
    state_partitions: int
    """Of __transaction_state."""
    offsets_partitions: int
    """Of __consumer_offsets, unless groups say otherwise."""
    segment_bytes: int
    """Of the coordinators' topics: small ones are compacted."""
    think_s: float
    mischief: float
    """The share of transactions in which a client does something that it should not."""
    vanish: float
    """The share of transactions in the middle of which a client is gone."""
    hand_over: float = 0.0
    """The share of copied transactions after which another, with an id of its own, takes over."""


def choose_transactions(seed: int, *, wanted: bool | str | None) -> TransactionSettings | None:
    """Those of a seed; `wanted`, if it is not left to the seed whether it has any, or CLASSIC: only classic clients,
    and among them one that copies.
    """
    rng = random.Random(f"transactions {seed}")
    has_some = rng.random() < SHARE
    if not (has_some if wanted is None else wanted):
        return None
    members: list[TransactionalMember] = []
    for at in range(rng.choice((1, 2, 2))):
        protocol, timeout_ms = rng.choice((CLASSIC, NEW)), rng.choice((400, 1000, 3000))
        members += [
            TransactionalMember(f"p{at}{double}", f"id{at}", protocol, timeout_ms)
            for double in "ab"[: rng.choice((1, 1, 2))]
        ]
    if rng.random() < 0.7:
        protocol, timeout_ms = rng.choice((CLASSIC, NEW)), rng.choice((400, 1000, 3000))
        members += [
            TransactionalMember(f"c{double}", "idc", protocol, timeout_ms, "copies")
            for double in "ab"[: rng.choice((1, 2))]
        ]
    if wanted == CLASSIC:
        members = [evolve(one, protocol=CLASSIC) for one in members]
        if all(one.group is None for one in members):
            members.append(TransactionalMember("ca", "idc", CLASSIC, 1000, "copies"))
    return TransactionSettings(
        members=tuple(members),
        partitions=rng.choice((1, 2, 3)),
        state_partitions=rng.choice((1, 2)),
        offsets_partitions=rng.choice((1, 2)),
        segment_bytes=rng.choice((500, 2000, 100 << 20)),
        think_s=rng.choice((0.02, 0.1, 0.2)),
        mischief=rng.choice((0.0, 0.1, 0.4)),
        vanish=rng.choice((0.03, 0.15)),
        hand_over=_choose_hand_over(seed, sum(one.group is not None for one in members)),
    )


def _choose_hand_over(seed: int, copiers: int) -> float:
    """Only one that copies alone hands over: of two, each would go on while the other does. A generator of its own."""
    return random.Random(f"hand over {seed}").choice((0.0, 0.6)) if copiers == 1 else 0.0
