"""Whatever producers of one transactional id do, in any order, over failovers: transactions end once, in one way."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from log.machines.transaction.config import TransactionConfig
from tests.log.machines.transaction.driven import WAITS, Driven

Producer = tuple[int, int]


class Histories(RuleBasedStateMachine):
    """Producers that never forget: each acts with any identity that any of them ever got."""

    def __init__(self) -> None:
        super().__init__()
        self.driven = Driven(TransactionConfig(transaction_two_phase_commit_enable=True))
        self.known: list[Producer] = [(999, 0)]
        self.begun: set[Producer] = set()
        self.outcomes: dict[Producer, bool] = {}
        """Of transactions v2: which was ended by whom, and how, as far as anybody was told."""
        self.open_by: Producer | None = None

    def pick(self, number: int) -> Producer:
        return self.known[-1 - number % len(self.known)]

    @rule(number=st.integers(0, 3), names=st.booleans(), keep=st.booleans())
    def init(self, number: int, names: bool, keep: bool) -> None:
        producer = self.pick(number) if names else (-1, -1)
        answer = self.driven.init(producer=producer, keep=keep, two_phase=keep, version=6)
        if answer.error_code == 0:
            got = (answer.producer_id, answer.producer_epoch)
            if not names:
                assert got not in self.known, "a new producer shares its epoch with nobody"
            self.known.append(got)
            if answer.ongoing_txn_producer_id >= 0:
                assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) in self.begun

    @rule(number=st.integers(0, 3), partition=st.integers(0, 2))
    def add(self, number: int, partition: int) -> None:
        producer = self.pick(number)
        if self.driven.add(producer, partition, version=5) in (0, WAITS):
            assert producer == max(self.known), "only the newest producer writes"
            assert producer not in self.outcomes, "what ended has ended"
            self.begun.add(producer)

    @rule(number=st.integers(0, 3), commit=st.booleans())
    def end(self, number: int, commit: bool) -> None:
        producer, before = self.pick(number), self.driven.describe()
        error, got = self.driven.end2(producer, commit=commit)
        if error:
            assert self.driven.describe() == before
            return
        assert got > producer
        assert self.outcomes.setdefault(producer, commit) is commit, "it ended in the other way already"
        self.known.append(got)

    @rule(seconds=st.sampled_from([1, 59, 60]))
    def pass_time(self, seconds: int) -> None:
        self.driven.pass_time(seconds)

    @rule(partition=st.integers(0, 2))
    def write_some_markers(self, partition: int) -> None:
        self.driven.write_markers(lambda one: one == ("a", partition))

    @rule()
    def write_markers(self) -> None:
        self.driven.write_markers()
        assert not self.driven.state.startswith("Prepare")

    @rule()
    def fail_over(self) -> None:
        before = self.driven.describe()
        self.driven.fail_over()
        assert self.driven.describe() == before

    @invariant()
    def whoever_must_be_told_is_asked_for(self) -> None:
        state = self.driven.describe()
        if state.transaction_state.startswith("Prepare"):
            asked = [one for one in self.driven.markers if one.producer_epoch == state.producer_epoch]
            assert asked
            assert asked[-1].commit is (state.transaction_state == "PrepareCommit")


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
