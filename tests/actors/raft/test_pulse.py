"""A process that got no processor for a while knows it from its own heartbeats."""

from __future__ import annotations

from actors.raft.pulse import BEAT_SECONDS, LATE_SECONDS, WAKING_SECONDS, Pulse


def test_a_process_that_beats_in_time_is_awake() -> None:
    pulse, now = Pulse(), 100.0
    assert not pulse.is_waking(now), "before its first heartbeat there is nothing to be late with"
    for _ in range(10):
        pulse.beat(now)
        now += BEAT_SECONDS + LATE_SECONDS / 2
        assert not pulse.is_waking(now)


def test_a_process_that_slept_is_waking_until_its_peers_had_the_time_to_answer() -> None:
    pulse = Pulse()
    pulse.beat(100.0)
    assert pulse.is_waking(102.0), "also before its first heartbeat after that"
    pulse.beat(102.0)
    pulse.beat(102.0 + BEAT_SECONDS)
    assert pulse.is_waking(102.0 + WAKING_SECONDS - 0.01)
    pulse.beat(102.0 + WAKING_SECONDS)
    assert not pulse.is_waking(102.0 + WAKING_SECONDS), "once, whichever voter answered"
