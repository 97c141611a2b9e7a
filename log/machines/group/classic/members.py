"""The members of a classic group: their ids and protocols, their leader, the members that the group waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from log.machines.coordination import Caller
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.messages.group_records import MemberMetadata
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.records.compression import Bytes

NO_MEMBER = ""
"""What a client without a member id sends in its place."""

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names, each with the member's metadata for the leader, the preferred one first."""


NAME_BYTES_MAX = 32_000
"""Of a client id or an instance id: with a uuid behind it, it is a member id, which must fit into a string."""
PROTOCOLS_MAX = 1000
"""The protocols that a member may offer. Each is looked at for every member that joins."""
_MEMBER_BYTES = 128
_OFFERS = 4
"""How many protocols Kafka's consumers offer at most, of which one is written."""


def bytes_of_member(
    client_id: str, client_host: str, instance_id: str | None, protocols: Iterable[tuple[str, Bytes]]
) -> int:
    """How many bytes a member takes in its group's record, without its assignment; more if it offers very much."""
    names = len(client_id.encode()) + len(client_host) + 2 * len((instance_id or client_id).encode())
    offered = [len(name.encode()) + len(metadata) for name, metadata in protocols]
    return _MEMBER_BYTES + names + max(max(offered, default=0), sum(offered) // _OFFERS)


def protocols_of(requested: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """Copied: what was received is not kept."""
    return tuple((one.name, bytes(one.metadata)) for one in requested)


@define(slots=True, eq=False)
class ClassicMember:
    """One member. `joining` and `syncing` are its requests that wait for other members."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Caller | None = None
    syncing: Caller | None = None
    is_new: bool = False
    """No answer has carried its id yet, so it cannot send heartbeats."""

    @classmethod
    def recorded(cls, record: MemberMetadata, protocol: str) -> ClassicMember:
        return cls(
            record.member_id,
            record.group_instance_id,
            record.client_id,
            record.client_host,
            record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
            record.session_timeout,
            ((protocol, bytes(record.subscription)),),
            bytes(record.assignment),
        )

    def record(self, protocol: str) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @property
    def size(self) -> int:
        """See bytes_of_member."""
        return bytes_of_member(self.client_id, self.client_host, self.instance_id, self.protocols)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for the leader under this protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class ClassicMembers:
    """All members, in the order in which they joined. `pending` got an id, with which they have to join again."""

    __slots__ = ("_joining", "_members", "_speakers", "_statics", "leader", "pending", "size", "unsynced")

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: set[str] = set()
        self.unsynced: set[str] = set()
        """Members that got the answer to their join and have not asked for their assignment yet."""
        self._members: dict[str, ClassicMember] = {}
        self._statics: dict[str, str] = {}
        self._speakers: Counter[str] = Counter()
        """How many members support each protocol."""
        self._joining = 0
        self.size = 0
        """The bytes of all members in the group's record, without their assignments."""

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    @property
    def ids(self) -> list[str]:
        return list(self._members)

    def with_instance(self, instance_id: str) -> str | None:
        """The id of the static member that goes by this instance id."""
        return self._statics.get(instance_id)

    def refusal(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why this is not a member, or NONE."""
        if instance_id is not None:
            known = self._statics.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- coming, changing and going --------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        assert member.member_id not in self._members
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._statics[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member, or a pending one, of which only the id is known."""
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        if member.instance_id is not None and self._statics.get(member.instance_id) == member_id:
            del self._statics[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def replace(self, old_id: str, new: ClassicMember) -> None:
        """A static member came back under a new id: it takes the old one's place, also as leader."""
        led, was_unsynced = self.leader == old_id, old_id in self.unsynced
        self.remove(old_id)
        self.add(new)
        if led:
            self.leader = new.member_id
        if was_unsynced:
            self.unsynced.add(new.member_id)

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def set_joining(self, member: ClassicMember, caller: Caller | None) -> None:
        self._joining += (caller is not None) - (member.joining is not None)
        member.joining = caller

    def _count(self, member: ClassicMember, by: int) -> None:
        self._joining += by * (member.joining is not None)
        self.size += by * member.size
        for name in {name for name, _ in member.protocols}:
            self._speakers[name] += by
            if not self._speakers[name]:
                del self._speakers[name]

    # -- joining ---------------------------------------------------------------------------------------------

    @property
    def joining(self) -> int:
        """How many wait for the answer to their join."""
        return self._joining

    @property
    def all_joined(self) -> bool:
        return self._joining == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def lead_by_one_that_joined(self) -> bool:
        """Keep the leader if it joined again; otherwise the first member that did leads. False if no member did."""
        leader = None if self.leader is None else self._members[self.leader]
        if leader is None or leader.joining is None:
            joined = next((member.member_id for member in self if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    # -- protocols -------------------------------------------------------------------------------------------

    def understand_one_of(self, names: Iterable[str]) -> bool:
        """Is there a protocol among these that all members support?"""
        return any(self._speakers[name] == len(self._members) for name in names)

    def elected_protocol(self) -> str:
        """Each member votes for its first choice among the protocols of all; the oldest member decides a tie."""
        spoken = {name for name, speakers in self._speakers.items() if speakers == len(self._members)}
        assert spoken, "a member joins only with a protocol that all others support"
        votes: Counter[str] = Counter()
        for member in self:
            votes[next(name for name, _ in member.protocols if name in spoken)] += 1
        return votes.most_common(1)[0][0]
