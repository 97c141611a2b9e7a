"""How many elections a process has under way, and that leaders come back however slow their machine is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from actors.partition.replica import Replica
from actors.raft.elections import PATIENCE_SECONDS, PATIENCE_SECONDS_MAX, Claim, Elections
from actors.runtime import Node
from actors.runtime.simulation import Simulation
from log.raft.candidate import Election
from log.raft.membership import Voter
from tests.actors.partition.test_partitions import Brokers


class Asked:
    """Groups that stand for election, and those that were called."""

    def __init__(self, at_once: int = 2) -> None:
        self.elections = Elections(at_once)
        self.called: list[str] = []

    def begin(self, group: str, now: float, claim: Claim = Claim.PREFERRED) -> float:
        return self.elections.begin(group, now, claim, lambda: self.called.append(group))


def test_few_elections_begin_at_once_and_the_next_when_one_ends() -> None:
    asked = Asked()
    assert [asked.begin(group, 1.0) for group in "abcd"] == [1.0, 1.0, math.inf, math.inf]
    asked.elections.ended("b", 1.1)
    assert asked.called == ["c"]
    assert asked.elections.has_place("c")
    asked.elections.ended("d", 1.1)
    asked.elections.ended("c", 1.1)
    assert (asked.called, asked.elections.under_way, asked.elections.waiting) == (["c"], 1, 0)


def test_an_election_is_tried_again_at_once_while_nobody_waits() -> None:
    asked = Asked()
    assert asked.begin("a", 1.0) == 1.0
    assert asked.begin("a", 1.03, Claim.REPEATED) == 1.03


def test_an_election_that_takes_long_loses_its_place_to_those_that_wait() -> None:
    asked = Asked(at_once=1)
    asked.begin("a", 1.0)
    asked.begin("b", 1.0)
    until = 1.0 + PATIENCE_SECONDS
    assert asked.begin("a", 1.03, Claim.REPEATED) == until, "its answers may be on their way"
    assert asked.begin("a", until, Claim.REPEATED) == math.inf
    assert asked.called == ["b"]
    asked.elections.ended("b", until)
    assert asked.called == ["b", "a"]


@pytest.fixture
def slow() -> Asked:
    """Elections took 0.2 s of late."""
    asked = Asked(at_once=1)
    for number in range(50):
        asked.begin("a", 10.0 * number)
        asked.elections.ended("a", 10.0 * number + 0.2)
    return asked


def test_elections_keep_their_places_for_longer_where_they_take_longer(slow: Asked) -> None:
    slow.begin("a", 1000.0)
    slow.begin("b", 1000.0)
    assert slow.begin("a", 1000.1, Claim.REPEATED) == pytest.approx(1000.8, abs=0.01)
    slow.elections.ended("a", 2000.0)
    slow.begin("c", 2000.0)
    assert slow.begin("b", 2000.1, Claim.REPEATED) == 2000.0 + PATIENCE_SECONDS_MAX, "and not without end"


def test_no_election_is_tried_again_before_its_answers_can_have_come(slow: Asked) -> None:
    slow.begin("a", 1000.0)
    assert slow.begin("a", 1000.03, Claim.REPEATED) == pytest.approx(1000.4, abs=0.01)
    assert slow.begin("a", 1000.41, Claim.REPEATED) == 1000.41


def test_a_group_that_elects_nobody_does_not_make_others_wait_longer_each_time() -> None:
    asked = Asked()
    now = 0.0
    for _ in range(1000):
        now = max(asked.begin("hopeless", now, Claim.REPEATED), now) + 2.0
    assert asked.begin("hopeless", now, Claim.REPEATED) == now
    asked.begin("b", now)
    assert asked.begin("b", now + 0.03, Claim.REPEATED) == now + 0.03


def test_who_is_preferred_goes_first_and_substitutes_begin_at_the_other_end() -> None:
    asked = Asked(at_once=1)
    asked.begin("running", 1.0)
    for group in ("s1", "s2", "s3"):
        asked.begin(group, 1.0, Claim.SUBSTITUTE)
    for group in ("p1", "p2"):
        asked.begin(group, 1.0)
    for _ in range(5):
        asked.elections.ended(["running", *asked.called][-1], 1.0)
    assert asked.called == ["p1", "p2", "s3", "s2", "s1"]


def test_repeated_tries_wait_behind_first_ones_but_not_for_ever() -> None:
    asked = Asked(at_once=1)
    asked.begin("running", 1.0)
    asked.begin("repeated", 1.0, Claim.REPEATED)
    running = ["running"]
    for number in range(8):
        asked.begin(f"first {number}", 1.0)
    for _ in range(9):
        asked.elections.ended((running + asked.called)[-1], 1.0)
    assert sorted(asked.called) == sorted(["repeated", *(f"first {number}" for number in range(8))])
    assert 0 < asked.called.index("repeated") < 8


PARTITIONS = 150
AT_ONCE_HERE = 4
SECONDS_PER_MESSAGE = 0.005


def step_slowly(sim: Simulation) -> None:
    """Let one actor handle one message, which takes a while. Timers that are due by then fire first, as always."""
    sim.clock.advance_to(sim.clock.now() + SECONDS_PER_MESSAGE)
    deadline, first = sim._next()
    while first is not None and deadline <= sim.clock.now():
        first.fire(deadline)
        deadline, first = sim._next()
    urgent = [(one, actor) for one in sim._running for actor in one._ready if actor.urgent]
    if urgent:
        scheduler, actor = sim.rng.choice(urgent)
        scheduler.run_one(scheduler._ready.index(actor))
    else:
        sim.step()


def electing(node: Node) -> int:
    replicas = [actor for actor in node._alive.values() if isinstance(actor, Replica)]
    return sum(one.member.node.role.is_electing for one in replicas)


def count_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that ask for votes, one for each time."""
    asked, request_votes = [], Election._request_votes

    def request(self: Election, voters: Sequence[Voter]) -> None:
        asked.append(f"{self.state.broker}")
        request_votes(self, voters)

    monkeypatch.setattr(Election, "_request_votes", request)
    return asked


def test_leaders_come_back_on_a_machine_that_is_slower_than_elections_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all elections at once, each would be tried again before its answers were looked at, without end."""
    brokers = Brokers(3)
    groups = brokers.create(PARTITIONS)
    for one in brokers.contexts.values():
        one.elections._at_once = AT_ONCE_HERE
    asked = count_requests(monkeypatch)
    brokers.kill(1)
    del brokers.contexts[1]

    def are_led() -> bool:
        return all(one.leadership.is_led(group) for one in brokers.contexts.values() for group in groups)

    brokers.until(lambda: not are_led())
    killed_at, most = brokers.sim.clock.now(), 0
    while not are_led():
        step_slowly(brokers.sim)
        most = max(most, *(electing(brokers.sim.nodes[number]) for number in (2, 3)))
        assert brokers.sim.clock.now() < killed_at + 20.0, f"{most} elections at once, {len(asked)} requests"
    assert most <= 3 * AT_ONCE_HERE, "some of them have lost their places"
    assert len(asked) <= 4 * PARTITIONS / 3, "two for each group that lost its leader, and some tries more"
