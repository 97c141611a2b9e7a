"""What a seed stands for: sizes, flush policy, how bad the wires are, which faults, which clients."""

from __future__ import annotations

import random

from attrs import frozen

from actors.runtime.simulation import Wire
from log.config import NEVER
from log.raft.config import RaftConfig
from tools.simulator.settings.choices import (
    choose_blackout,
    choose_minority,
    choose_pipelined,
    choose_replicas,
    choose_unreplicated,
)
from tools.simulator.settings.faults import (
    DIRECTED_FAULTS,
    DISK_LOSSES,
    FAULTS,
    LASTING_FAULTS,
    LASTING_SHARE,
    OWN_SHARES,
)
from tools.simulator.settings.groups import ConsumerGroupSettings, choose_groups
from tools.simulator.settings.transactions import TransactionSettings, choose_transactions

EVENTS_MAX = 300_000
TINY_SEGMENT_BYTES = 5000


@frozen(slots=True)
class Settings:
    """One run, complete: everything else comes from its seed."""

    seed: int
    brokers: int
    partitions: int
    seconds: float
    steps: int | None
    wire: Wire
    raft: RaftConfig
    topic_defaults: tuple[tuple[str, str], ...]
    replication_factor: int
    admins: int
    writers: int
    readers: int
    think_s: float
    value_bytes: int
    faults: tuple[str, ...]
    fault_interval_s: float
    snapshot_bytes: int
    """So much metadata log makes a snapshot."""
    events_max: int
    groups: ConsumerGroupSettings | None
    transactions: TransactionSettings | None
    unreplicated: int
    """So many partitions with one replica are there beside the others."""
    pipelined: bool
    """Is there a writer with several batches under way?"""
    minority: bool
    """Does a minority of the brokers stay broken until every client has finished?"""
    blackout: bool
    """Does every machine lose its power at the end, and what was not synced with it?"""

    @property
    def min_insync_replicas(self) -> int:
        """What acks=all needs of the replicated partitions."""
        return min(int(dict(self.topic_defaults)["min.insync.replicas"]), self.replication_factor)

    @property
    def flushes(self) -> bool:
        """Is everything on disk before it is acknowledged?"""
        return self.raft.flush_before_ack

    @property
    def has_tiny_segments(self) -> bool:
        """May a segment hold only a batch or two?"""
        return "configure" in self.faults or int(dict(self.topic_defaults)["segment.bytes"]) < TINY_SEGMENT_BYTES

    @property
    def asks_for_syncs(self) -> bool:
        defaults = dict(self.topic_defaults)
        return any(int(defaults[name]) != NEVER for name in ("flush.messages", "flush.ms"))


def choose(
    seed: int,
    *,
    faults: tuple[str, ...] = FAULTS,
    without: tuple[str, ...] = (),
    brokers: int | None = None,
    replication_factor: int | None = None,
    partitions: int | None = None,
    min_insync_replicas: int | None = None,
    seconds: float | None = None,
    steps: int | None = None,
    admins: int | None = None,
    snapshot_bytes: int | None = None,
    events_max: int | None = None,
    writers: int | None = None,
    groups: tuple[str, ...] | None = None,
    transactions: bool | str | None = None,
    unreplicated: int | None = None,
    pipelined: bool | None = None,
    minority: bool | None = None,
    blackout: bool | None = None,
) -> Settings:
    """The settings of a seed, among the faults that are allowed; `without` one, a seed is as it was before that."""
    rng = random.Random(f"settings {seed}")
    flushes = rng.random() < 0.4
    chosen = faults
    if faults == FAULTS:
        directed = random.Random(f"directed {seed}")  # of its own: what else a seed stands for stays as it was
        lasting = random.Random(f"lasting {seed}")
        shares = dict.fromkeys(DIRECTED_FAULTS, (0.5, directed))
        shares |= dict.fromkeys(LASTING_FAULTS, (LASTING_SHARE, lasting))
        shares |= {one: (share, random.Random(f"{one} {seed}")) for one, share in OWN_SHARES.items()}
        drawn_from = [(one, *shares.get(one, (0.5, rng))) for one in faults]
        chosen = tuple(one for one, share, generator in drawn_from if generator.random() < share)
    else:
        for _ in faults:
            rng.random()
    chosen = tuple(one for one in chosen if one not in without)
    blackout = not flushes and ((faults == FAULTS and choose_blackout(seed)) if blackout is None else blackout)
    if blackout:
        chosen = tuple(one for one in chosen if one not in (*DISK_LOSSES, "recovery", "evictions"))
    elif "recovery" in chosen:
        chosen = tuple(one for one in chosen if one not in DISK_LOSSES)
    delay_s_max = rng.choice((0.0005, 0.002, 0.005, 0.02, 0.06))
    wire = Wire(
        delay_s_min=0.00002,
        delay_s_max=delay_s_max,
        loss=rng.choice((0.001, 0.01, 0.05)) if "drop" in chosen else 0.0,
        last_words=rng.choice((0.0, 0.5, 1.0)),
    )
    raft = RaftConfig(
        campaign_stagger_s=rng.choice((0.0005, 0.015)),
        election_retry_s=rng.choice((0.005, 0.03)),
        window_bytes=rng.choice((200, 2000, 8 << 20)),
        fetch_bytes=rng.choice((100, 1000, 1 << 20)),
        catch_up_bytes_per_s=float("inf") if seed % 3 else 200_000.0,
        lag_s_max=rng.choice((1.0, 5.0, 30.0)),
        flush_before_ack=flushes,
    )
    flush_messages, flush_ms = (1, NEVER) if flushes else rng.choice(((NEVER, NEVER), (5, NEVER), (NEVER, 300)))
    topic_defaults = {
        "segment.bytes": rng.choice((400, 1500, 20_000)),
        "index.interval.bytes": rng.choice((0, 100, 1000)),
        "flush.messages": flush_messages,
        "flush.ms": flush_ms,
        "min.insync.replicas": rng.choice((1, 2)),
        "retention.ms": -1,  # clocks jump, and administrators expect what they wrote; "retention" deletes by itself
    }
    drawn = rng.choice((3, 3, 4, 5))
    if faults == FAULTS and brokers is None and replication_factor is None:
        brokers, replication_factor = choose_replicas(seed) or (drawn, 3)
    if min_insync_replicas is not None or seed % 19 == 18:  # more than a majority: as many as there are
        topic_defaults["min.insync.replicas"] = min_insync_replicas or replication_factor or brokers or 3
    return Settings(
        seed=seed,
        brokers=brokers or drawn,
        replication_factor=replication_factor or brokers or 3,
        admins=rng.choice((0, 1, 2)) if admins is None else admins,
        partitions=partitions or rng.choice((1, 1, 2, 3)),
        seconds=seconds or rng.uniform(4, 10),
        steps=steps,
        wire=wire,
        raft=raft,
        topic_defaults=tuple((name, str(value)) for name, value in topic_defaults.items()),
        writers=rng.randint(3, 5) if writers is None else writers,
        readers=rng.randint(1, 2),
        think_s=rng.choice((0.02, 0.05, 0.15)),
        value_bytes=rng.choice((0, 0, 200, 1500)),
        faults=chosen,
        fault_interval_s=rng.choice((0.25, 0.6, 1.5)),
        snapshot_bytes=rng.choice((1000, 3000, 1 << 20)) if snapshot_bytes is None else snapshot_bytes,
        events_max=events_max or EVENTS_MAX,
        groups=choose_groups(seed, groups),
        transactions=choose_transactions(seed, wanted=transactions),
        unreplicated=(choose_unreplicated(seed) if faults == FAULTS else 0) if unreplicated is None else unreplicated,
        pipelined=(faults == FAULTS and choose_pipelined(seed)) if pipelined is None else pipelined,
        minority=(faults == FAULTS and choose_minority(seed)) if minority is None else minority,
        blackout=blackout,
    )
