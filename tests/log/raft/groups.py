"""A whole group in one process, without actors: members, a seeded network between them, faults, and the invariants.

It is the small, fast sibling of the simulator: no clock, no codec, only Raft, the log and a disk that can lose power.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.generation import generation_of
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import Append, Message
from log.raft.node import RaftNode
from log.raft.pacer import Pacer
from log.raft.ready import Vote
from log.recovery import losses
from log.replica.member import MEMBERSHIP_FILE, Member
from protocol.records.batches import Record, build_batch, check_batches, parse_batches, records

DIRECTORY = "/data/t-0"


class Group:
    """`size` replicas and everything that can happen to them. Offsets map to the one value ever committed there."""

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        config: RaftConfig | None = None,
        segment_bytes: int = 2000,
        voters: int | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.config = config or RaftConfig()
        self.log_config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
        self.brokers = list(range(1, size + 1))
        self.wanted = tuple(self.brokers[:voters])
        """The voters that the controller last decided on."""
        self.told = dict.fromkeys(self.brokers, self.wanted)
        """The same, as each broker last heard."""
        self.minority = len(self.wanted) - (len(self.wanted) // 2 + 1)
        self.generation: Membership | None = None
        self.survivors: list[set[Voter]] = []
        """Of each generation after the first."""
        """Which replicas go on without the others, as an operator last decided."""
        self.membership = Membership(tuple(Voter(broker, f"dir-{broker}") for broker in self.wanted))
        self.disks = {broker: MemoryFilesystem() for broker in self.brokers}
        self.directories = {broker: f"dir-{broker}" for broker in self.brokers}
        self.votes: dict[int, Vote] = {broker: Vote() for broker in self.brokers}
        self.members: dict[int, Member] = {}
        self.heard: dict[int, int] = {}
        """The latest generation of which each replica has had a message since it was started."""
        self.links: set[frozenset[int]] = set()
        self.channels: dict[tuple[int, int], deque[Message]] = {}
        self.saving: dict[int, deque[Vote]] = {broker: deque() for broker in self.brokers}
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, dict[int, bytes | None]] = {}
        """By generation."""
        self.acknowledged: dict[int, bytes] = {}
        self.waiting: dict[int, list[tuple[int, int, bytes]]] = {}
        self.appended = 0
        self.syncs_late = False
        """Is a truncation on disk only when `sync` says so?"""
        self.trace: list[str] = []
        for broker in self.brokers:
            self.start(broker)

    # -- life and death ----------------------------------------------------------------------------------------

    def start(self, broker: int, *, lost: bool = False) -> None:
        """`lost`: it knows that it lost what it may have acknowledged."""
        disk = self.disks[broker]
        log = PartitionLog.open(DIRECTORY, self.log_config, Handles(disk))
        try:
            history = MembershipHistory.decode(disk.read(f"{DIRECTORY}/{MEMBERSHIP_FILE}"))
        except FileNotFoundError:
            history = MembershipHistory([(-1, self.membership)])
        is_whole = not lost and (log.cut is None or not log.cut.below_checkpoint)
        is_whole = is_whole and not losses.is_marked(disk, DIRECTORY)
        node = RaftNode(
            broker, self.directories[broker], history, self.votes[broker], log,
            config=self.config, rng=self.rng, now=self.now, eligible=is_whole, is_new=losses.is_new(disk, DIRECTORY),
            wanted=self.told[broker], pacer=Pacer(self.config.catch_up_bytes_per_s),
        )  # fmt: skip
        self.members[broker] = Member(log, node, lambda: int(self.now * 1000))
        self.waiting[broker] = []
        self.heard[broker] = 0
        self.saving[broker].clear()
        self.note(f"start {broker} end={log.end_offset} hw={log.high_watermark} cut={log.cut}")

    def kill(self, broker: int, *, power: bool = False) -> None:
        """The process dies; the page cache lives on, unless the power goes too."""
        self.note(f"kill {broker} power={power}")
        for other in self.brokers:
            self.disconnect(broker, other)
        self.members.pop(broker)
        if power:
            self.disks[broker].crash(self.rng)
        else:
            self.disks[broker].crash(mode="keep_all")

    def replace_disk(self, broker: int) -> None:
        """The broker is dead; when it starts again it has an empty disk, and so another directory."""
        assert broker not in self.members
        self.note(f"replace the disk of {broker}")
        self.disks[broker], self.votes[broker] = MemoryFilesystem(), Vote()
        self.directories[broker] += "'"

    def connect(self, a: int, b: int) -> None:
        if a != b and a in self.members and b in self.members and frozenset((a, b)) not in self.links:
            self.note(f"connect {a} {b}")
            self.links.add(frozenset((a, b)))
            self.channels[a, b], self.channels[b, a] = deque(), deque()
            self.act(a, lambda member: member.peer_up(b, self.now))
            self.act(b, lambda member: member.peer_up(a, self.now))

    def disconnect(self, a: int, b: int) -> None:
        if frozenset((a, b)) in self.links:
            self.note(f"disconnect {a} {b}")
            self.links.discard(frozenset((a, b)))
            self.channels.pop((a, b)), self.channels.pop((b, a))
            for one, other in ((a, b), (b, a)):
                if one in self.members:
                    self.act(one, lambda member, other=other: member.peer_down(other, self.now))  # type: ignore[misc]

    # -- steps -------------------------------------------------------------------------------------------------

    def act(self, broker: int, what: Callable[[Member], object]) -> None:
        """Let a member do something, send what it has to say, and look whether everything still holds."""
        member = self.members[broker]
        what(member)
        if (member.log.is_truncating or member.node.owes_sync) and not self.syncs_late:
            member.log.flush()
            member.flushed(self.now)
        if member.unsaved_vote is not None and (
            not self.saving[broker] or self.saving[broker][-1] != member.unsaved_vote
        ):
            self.saving[broker].append(member.unsaved_vote)
        outbox, member.outbox = member.outbox, []
        for to, message in outbox:
            if (broker, to) in self.channels:
                self.channels[broker, to].append(message)
        if member.role_changed:
            member.role_changed = False
            self.note(f"{broker} is {type(member.node.role).__name__} in {member.node.term}")
        self.check(broker)

    def save_vote(self, broker: int) -> None:
        if self.saving[broker]:
            vote = self.saving[broker].popleft()
            self.votes[broker] = vote
            self.act(broker, lambda member: member.vote_saved(vote, self.now))

    def deliver(self, a: int, b: int) -> None:
        channel = self.channels.get((a, b))
        if channel:
            message = channel.popleft()
            self.note(f"deliver {a}→{b} {message!r:.150}")
            if not isinstance(
                message, Append
            ):  # which is not looked at while the disk is full, or the log is being cut
                self.heard[b] = max(self.heard[b], generation_of(message.term))
            self.act(b, lambda member: member.step(message, self.now))

    def sync(self, broker: int) -> None:
        """Make a member's log durable."""
        member = self.members.get(broker)
        if member is not None and (member.log.is_truncating or member.log.flushed_offset < member.log.end_offset):
            member.log.flush()
            self.act(broker, lambda synced: synced.flushed(self.now))

    def propose(self, broker: int) -> None:
        member = self.members.get(broker)
        if member is None or not member.node.leads:
            return
        self.appended += 1
        value = b"value-%d" % self.appended
        batch = build_batch([Record(0, self.appended, None, value, ())])
        offset = member.log.end_offset
        self.act(broker, lambda leader: leader.append(check_batches(batch), self.now))
        self.note(f"propose {broker} {value!r} at {offset}")
        self.waiting[broker].append((offset, member.node.term, value))
        self.check(broker)

    def want(self, *wanted: int) -> None:
        """The controller decides on other voters. No broker knows yet."""
        self.note(f"want {wanted}")
        self.wanted = wanted

    def tell_wanted(self, broker: int) -> None:
        if self.told[broker] != self.wanted and broker in self.members:
            self.told[broker] = self.wanted
            self.act(broker, lambda member: member.want(self.wanted, (), self.now))

    def recover(self, *survivors: int) -> None:
        """An operator gives the others up. Nobody knows yet."""
        self.note(f"recover with {survivors}")
        generation = 1 if self.generation is None else self.generation.generation + 1
        voters = tuple(Voter(broker, self.directories[broker]) for broker in survivors)
        self.generation = Membership(voters, generation=generation)
        self.survivors.append(set(voters))
        self.acknowledged = {}

    def tell_generation(self, broker: int) -> None:
        member, decided = self.members.get(broker), self.generation
        if member is None or decided is None or member.node.membership.generation >= decided.generation:
            return
        self.note(f"tell {broker} of generation {decided.generation}")
        self.waiting[broker] = []
        replica, known = Voter(broker, self.directories[broker]), member.node.membership.generation
        keeps_log = all(replica in survivors for survivors in self.survivors[known:])
        self.act(broker, lambda one: one.begin_generation(decided, self.now, keeps_log=keeps_log))

    def tick(self, broker: int) -> None:
        if broker in self.members:
            self.act(broker, lambda member: member.tick(self.now))

    def beat(self, broker: int) -> None:
        """The leader's heartbeats, which travel beside the groups."""
        member = self.members.get(broker)
        if member is not None:
            for to, beat in member.node.beats():
                if (broker, to) in self.channels:
                    self.channels[broker, to].append(beat)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now:.3f} {text}")

    # -- what must hold ------------------------------------------------------------------------------------------

    def check(self, broker: int) -> None:
        member = self.members[broker]
        node = member.node
        member.check_invariants()
        if node.leads:
            known = self.leaders.setdefault(node.term, broker)
            assert known == broker, f"two leaders in term {node.term}: {known} and {broker}"
            heard = self.heard[broker]
            assert node.generation >= heard, f"{broker} leads generation {node.generation} and has heard of {heard}"
        if member.watermark_moved:
            member.watermark_moved = False
            self.check_committed(member)
        while self.waiting[broker] and self.waiting[broker][0][0] < node.watermark:
            offset, term, value = self.waiting[broker].pop(0)
            is_latest = node.generation == (0 if self.generation is None else self.generation.generation)
            if node.leads and node.term == term and is_latest:
                self.acknowledged[offset] = value

    def check_committed(self, member: Member) -> None:
        """What a watermark covers is the same everywhere and for ever."""
        for offset, value in self.contents(member, member.node.watermark).items():
            known = self.committed.setdefault(member.node.generation, {}).setdefault(offset, value)
            assert known == value, f"offset {offset} was {known!r} and is now {value!r}"

    def contents(self, member: Member, end: int) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        log = member.log
        offset = log.log_start_offset
        while offset < end:
            data = log.read(offset, 1 << 20, up_to=end).read()
            assert data, f"nothing at {offset} below {end}"
            batches = parse_batches(data)
            for position in batches.positions:
                for record in records(batches.data, position, limit=1 << 20):
                    found[record.offset] = record.value
            offset = batches.headers[-1].next_offset
        return found

    def heal(self) -> None:
        """Everybody lives, is linked, and knows the wanted voters."""
        for broker in self.brokers:
            if broker not in self.members:
                self.start(broker)
        for a in self.brokers:
            for b in self.brokers:
                self.connect(a, b)
        for broker in self.brokers:
            self.tell_wanted(broker)
            self.tell_generation(broker)

    def settle(self, seconds: float = 20.0) -> int:
        """Heal everything and let it run: a leader must come, and everybody must hold everything acknowledged."""
        self.heal()
        end, proposed = self.now + seconds, False
        while self.now < end:
            self.now += 0.01
            for broker in self.brokers:
                self.save_vote(broker)
                self.sync(broker)
                self.tick(broker)
                if int(self.now * 100) % 25 == 0:
                    self.beat(broker)
            for pair in list(self.channels):
                while self.channels.get(pair):
                    self.deliver(*pair)
            leader = self.settled_leader()
            if leader is not None and proposed:
                return leader
            leaders = [broker for broker, member in self.members.items() if member.node.leads]
            if leaders and not proposed and self.now > end - seconds / 2:
                proposed = True  # a tail that nobody has is cut by the next append, not before
                self.propose(max(leaders, key=lambda broker: self.members[broker].node.term))
        raise AssertionError("no leader with everybody caught up:\n" + "\n".join(self.trace[-60:]))

    def settled_leader(self) -> int | None:
        leaders = [broker for broker, member in self.members.items() if member.node.leads]
        if not leaders:
            return None
        leader = max(leaders, key=lambda broker: self.members[broker].node.term)
        end = self.members[leader].log.end_offset
        level = all(
            member.node.watermark == end == member.log.end_offset and member.node.eligible
            for broker, member in self.members.items()
            if broker in self.wanted
        )
        voters = self.members[leader].node.membership.brokers
        return leader if level and sorted(voters) == sorted(self.wanted) and leader in self.wanted else None

    def run(self, steps: int, *, moves: bool = False) -> None:
        """A random history. With `flush_before_ack` the power may fail, of a minority at a time."""
        rng = self.rng
        self.syncs_late = True
        weights = {
            "deliver": 60.0, "save": 10, "propose": 14, "tick": 12, "beat": 2, "connect": 4, "disconnect": 1,
            "kill": 0.3, "start": 3, "transfer": 0.4, "drop": 1, "sync": 8,
            "want": 0.3 if moves else 0, "tell": 2 if moves else 0, "learn": 1 if self.generation else 0,
        }  # fmt: skip
        for _ in range(steps):
            self.now += rng.expovariate(200)
            getattr(self, f"_{rng.choices(list(weights), list(weights.values()))[0]}")()

    def _deliver(self) -> None:
        if self.channels:
            self.deliver(*self.rng.choice(list(self.channels)))

    def _save(self) -> None:
        broker = self.rng.choice(self.brokers)
        if broker in self.members:
            self.save_vote(broker)

    def _propose(self) -> None:
        self.propose(self.rng.choice(self.brokers))

    def _tick(self) -> None:
        self.tick(self.rng.choice(self.brokers))

    def _beat(self) -> None:
        self.beat(self.rng.choice(self.brokers))

    def _sync(self) -> None:
        self.sync(self.rng.choice(self.brokers))

    def _connect(self) -> None:
        self.connect(*self.rng.choices(self.brokers, k=2))

    def _disconnect(self) -> None:
        self.disconnect(*self.rng.choices(self.brokers, k=2))

    def _kill(self) -> None:
        broker = self.rng.choice(self.brokers)
        if broker in self.members:
            self.kill(broker, power=self.config.flush_before_ack and len(self.members) > self.minority)

    def _start(self) -> None:
        broker = self.rng.choice(self.brokers)
        if broker not in self.members:
            self.start(broker)

    def _transfer(self) -> None:
        a, b = self.rng.choices(self.brokers, k=2)
        if a in self.members:
            self.act(a, lambda member: member.transfer_to(b, self.now))

    def _want(self) -> None:
        count = self.rng.choice((1, 2, 3, 3, 3))
        self.want(*self.rng.sample(self.brokers, count))

    def _tell(self) -> None:
        self.tell_wanted(self.rng.choice(self.brokers))

    def _learn(self) -> None:
        self.tell_generation(self.rng.choice(self.brokers))

    def _drop(self) -> None:
        channel = self.rng.choice(list(self.channels.values())) if self.channels else None
        if channel:
            channel.popleft()

    def check_acknowledged(self, leader: int) -> None:
        contents = self.contents(self.members[leader], self.members[leader].log.end_offset)
        for offset, value in self.acknowledged.items():
            assert contents.get(offset) == value, f"acknowledged {value!r} at {offset} is now {contents.get(offset)!r}"
