"""Elections where votes take long to be on disk, or messages to arrive: a leader is elected, however long."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.leader import Leader
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import Message
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.replica.member import Member


class SlowGroup:
    """Members on a clock of their own. Messages take `delay_s`, votes as long as the disk of each member needs."""

    def __init__(
        self, save_s: Sequence[float], seed: int, *, delay_s: float = 0.001, config: RaftConfig | None = None
    ) -> None:
        rng = random.Random(seed)
        self._delay_s = delay_s
        self._save_s = dict(enumerate(save_s, start=1))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.now = 0.0
        voters = tuple(Voter(broker, f"dir-{broker}") for broker in self._save_s)
        self.members: dict[int, Member] = {}
        self._saving: dict[int, Vote | None] = dict.fromkeys(self._save_s)
        for broker in self._save_s:
            log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
            history = MembershipHistory([(-1, Membership(voters))])
            node = RaftNode(
                broker, f"dir-{broker}", history, Vote(), log, config=config or RaftConfig(), rng=rng, now=0.0
            )  # fmt: skip
            self.members[broker] = Member(log, node, lambda: 0)
        for broker, member in self.members.items():
            for other in self.members:
                if other != broker:
                    member.peer_up(other, 0.0)
            self._go_on(broker)

    @property
    def leader(self) -> Member | None:
        return next((one for one in self.members.values() if isinstance(one.node.role, Leader)), None)

    def run(self, seconds: float) -> None:
        """Until there is a leader, or so long."""
        while self.leader is None and self._events[0][0] <= seconds:
            self.now, _, act = heapq.heappop(self._events)
            act()

    def _at(self, time: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), act))

    def _go_on(self, broker: int) -> None:
        member = self.members[broker]
        member.check_invariants()
        outbox, member.outbox = member.outbox, []
        for to, message in outbox:
            self._at(self.now + self._delay_s, lambda to=to, message=message: self._step(to, message))  # type: ignore[misc]
        vote = member.unsaved_vote
        if vote is not None and vote != self._saving[broker]:
            self._saving[broker] = vote
            self._at(self.now + self._save_s[broker], lambda: self._saved(broker, vote))
        if member.node.next_deadline is not None:
            self._at(max(member.node.next_deadline, self.now), lambda: self._tick(broker))

    def _step(self, broker: int, message: Message) -> None:
        self.members[broker].step(message, self.now)
        self._go_on(broker)

    def _saved(self, broker: int, vote: Vote) -> None:
        self.members[broker].vote_saved(vote, self.now)
        self._go_on(broker)

    def _tick(self, broker: int) -> None:
        due = self.members[broker].node.next_deadline
        if due is not None and due <= self.now:
            self.members[broker].tick(self.now)
            self._go_on(broker)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("save_s", [0.005, 0.3, 0.99, 1.05, 3.0, 10.0])
def test_disks_that_are_slow_alike_cost_one_election(save_s: float, seed: int) -> None:
    """Candidates began again after a second, their own votes on disk or not: no candidate was ever elected."""
    group = SlowGroup([save_s] * 3, seed)
    group.run(100 * save_s + 10)
    assert group.leader is not None
    assert group.leader.node.term == 1
    assert group.now < 2 * save_s + 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slow_s", [1.5, 6.0])
def test_a_majority_with_quick_disks_does_not_wait_for_the_others(slow_s: float, seed: int) -> None:
    group = SlowGroup([slow_s, slow_s, 0.005, 0.005, 0.005], seed)
    group.run(60.0)
    assert group.leader is not None
    assert group.now < 3 * slow_s + 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("delay_s", [0.03, 0.06])
def test_messages_that_take_longer_than_a_round_cost_a_few_rounds(delay_s: float, size: int, seed: int) -> None:
    """After its first round each pre-candidate yielded to every other one, and so they all did again and again."""
    group = SlowGroup(
        [0.001] * size, seed, delay_s=delay_s, config=RaftConfig(campaign_stagger_s=0.0005, election_retry_s=0.005)
    )
    group.run(60.0)
    assert group.leader is not None
    assert group.now < 0.6
