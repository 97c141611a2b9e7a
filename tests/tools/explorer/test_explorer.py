"""Every state of small groups; and that the search finds what it looks for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from attrs import evolve

from log.raft.candidate import Election, PreCandidate
from log.raft.messages import VoteRequest
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.raft.state import RaftState
from tools import explorer
from tools.explorer.scenario import Scenario
from tools.explorer.scenarios import SEED, joins_with_crash, small, star
from tools.explorer.search import Counterexample, Search
from tools.explorer.walks import walk


@pytest.mark.parametrize("scenario", list(small()), ids=lambda scenario: scenario.name)
def test_every_state_of_a_small_group_keeps_its_promises(scenario: Scenario) -> None:
    found = Search(scenario).run()
    assert found.is_exhausted
    assert found.electable > 1000


def test_a_search_says_how_much_it_has_seen() -> None:
    command = [sys.executable, "-m", explorer.__name__, "--small", "--only", "one voter joins two"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "states, depth" in done.stdout
    assert "every promise held" in done.stdout


def test_a_search_that_is_cut_short_says_so() -> None:
    assert not Search(star(), states_max=100).run().is_exhausted


def test_random_walks_keep_their_promises() -> None:
    scenario = Scenario("5 replicas", brokers=5, terms=2, batches=1, crashes=1, faults=1, flush=False)
    assert walk(scenario, walks=5, steps=60, seed=SEED).states > 100


def test_a_pre_candidate_that_never_yields_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better pre-candidates never win with this partial partition, and refuse the only one that can."""

    def insists(node: RaftNode, request: VoteRequest, now: float) -> bool:
        if isinstance(node.role, PreCandidate):
            if node.rank(node.broker) < node.rank(request.candidate):
                return False
            node.follow(None, now)
        return True

    monkeypatch.setattr(RaftNode, "_yields_to", insists)
    with pytest.raises(Counterexample, match="no leader can be reached") as fault:
        Search(star()).run()
    timers, answers = fault.value.trace[:2], fault.value.trace[2:]
    assert timers == ["0 timer", "1 timer"]
    assert all("→" in event for event in answers), "nothing but messages between these three was needed"


def test_a_voter_that_votes_twice_in_a_term_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    set_vote = RaftNode.set_vote

    def forgets(node: RaftNode, vote: Vote) -> None:
        set_vote(node, vote if vote.voted_for == node.broker else Vote(vote.term, None))

    monkeypatch.setattr(RaftNode, "set_vote", forgets)
    with pytest.raises(Counterexample, match="two leaders in term 1"):
        Search(Scenario("3 replicas", brokers=3, terms=1, elections_only=True)).run()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_voter_that_does_not_compare_logs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    would_grant = RaftNode._would_grant

    def trusts(node: RaftNode, request: VoteRequest, now: float) -> bool:
        return would_grant(node, evolve(request, last_epoch=99), now)

    monkeypatch.setattr(RaftNode, "_would_grant", trusts)
    scenario = Scenario("3 replicas", brokers=3, terms=2, batches=1, timers=2, crashes=1, flush=False)
    with pytest.raises(Counterexample, match=r"without what was committed|below its watermark"):
        Search(scenario).run()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_a_joining_voter_has_committed_outlives_a_power_loss_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memberships are on disk before they count, and candidates ask the voters of lost ones: one of both is enough."""
    assert Search(joins_with_crash()).run().is_exhausted
    monkeypatch.setattr(Election, "electorates", lambda election: (election.state.membership,))
    monkeypatch.setattr(RaftState, "owes_sync", property(lambda state: False))
    monkeypatch.setattr(RaftState, "countable", lambda state, flushed: 1 << 63)
    with pytest.raises(Counterexample, match="without what was committed"):
        Search(joins_with_crash()).run()
