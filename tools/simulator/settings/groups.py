"""What a seed stands for where consumer groups are concerned. It draws from a generator of its own."""

from __future__ import annotations

import random

from attrs import evolve, frozen

from log.machines.group.config import GroupConfig

EAGER, COOPERATIVE, CONSUMER, MIXED = "eager", "cooperative", "consumer", "mixed"
KINDS = (EAGER, COOPERATIVE, CONSUMER, MIXED)
"""Of groups: classic ones of both kinds, new ones, and such as go over from one protocol to the other and back."""
LEFT_BEHIND = "left behind"
"""Cooperative ones, only where they are asked for: a rebalance goes on without a static member that is paused, and the
member stays in its group."""
SHARE = 0.5
"""Of the seeds that have groups at all."""
_DOUBLE_SHARE = 0.5
_MIXED_SHARE = 0.25


@frozen(slots=True)
class MemberSettings:
    """One member, with everything that its lives have in common."""

    name: str
    group: str
    kind: str
    instance_id: str | None
    is_modern: bool
    """Speaks the newest versions of everything, or old ones."""
    is_double: bool = False
    """Has the instance id of another, and is gone in the end."""


@frozen(slots=True)
class ConsumerGroupSettings:
    """The groups of a run."""

    members: tuple[MemberSettings, ...]
    offsets_partitions: int
    """Of __consumer_offsets."""
    segment_bytes: int
    """Of __consumer_offsets: small ones are compacted."""
    config: GroupConfig
    session_s: float
    rebalance_s: float
    heartbeat_s: float
    poll_s: float
    commit_s: float
    mischief_s: float
    """Between two crashes, departures or pauses of one member."""
    made_before: bool
    """Is __consumer_offsets there before anything goes wrong?"""


def _kind_of(group_kind: str, number: int, rng: random.Random) -> str:
    """What a member of such a group speaks. Classic ones have one protocol in common."""
    if group_kind == LEFT_BEHIND:
        return COOPERATIVE
    if group_kind != MIXED:
        return group_kind
    return (COOPERATIVE, CONSUMER)[number] if number < 2 else rng.choice((COOPERATIVE, CONSUMER))


def choose_groups(seed: int, kinds: tuple[str, ...] | None) -> ConsumerGroupSettings | None:
    """The groups of a seed, if it has any; of these kinds, if any are named."""
    rng = random.Random(f"groups {seed}")
    has_groups = rng.random() < SHARE
    chosen = [rng.choice(KINDS[:3]) for _ in range(rng.choice((1, 1, 2)))]
    if random.Random(f"mixed groups {seed}").random() < _MIXED_SHARE:
        chosen[0] = MIXED
    if kinds is not None:
        chosen = list(kinds)
    elif not has_groups:
        chosen = []
    if not chosen:
        return None
    session_s = rng.choice((0.5, 0.8, 1.5) if LEFT_BEHIND not in chosen else (2.5,))
    members: list[MemberSettings] = []
    for at, kind in enumerate(chosen):
        for number in range(rng.choice((2, 3, 3))):
            is_static = rng.random() < 0.3
            if kind == LEFT_BEHIND:
                is_static = number == 0
            instance_id = f"g{at}i{number}" if is_static else None
            speaks = _kind_of(kind, number, rng)
            members.append(MemberSettings(f"g{at}m{number}", f"g{at}", speaks, instance_id, rng.random() < 0.6))
    statics = [member for member in members if member.instance_id is not None]
    if statics and rng.random() < _DOUBLE_SHARE:
        one = rng.choice(statics)
        members.append(evolve(one, name=f"{one.name}x", is_double=True))
    config = GroupConfig(
        group_min_session_timeout_ms=100,
        group_initial_rebalance_delay_ms=rng.choice((0, 100)),
        group_consumer_session_timeout_ms=int(session_s * 1000),
        group_consumer_heartbeat_interval_ms=int(session_s * 250),
    )
    return ConsumerGroupSettings(
        members=tuple(members),
        offsets_partitions=rng.choice((1, 2)),
        config=config,
        session_s=session_s,
        rebalance_s=rng.choice((0.5, 1.0, 2.0) if LEFT_BEHIND not in chosen else (0.5,)),
        heartbeat_s=session_s / 4,
        poll_s=rng.choice((0.05, 0.15)),
        commit_s=rng.choice((0.05, 0.15, 0.3)),
        mischief_s=rng.choice((1.0, 2.0, 4.0)),
        made_before=rng.random() < 0.7,
        segment_bytes=rng.choice((500, 2000, 100 << 20)),
    )
