"""The files and directories of `MemoryFilesystem`: what is cached, what is durable, and what a crash makes of it.

Both keep the cached state, the durable state, and the pending changes that lead from the one to the other. A crash
picks among the states that the pending changes passed through, sector by sector and name by name.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Union

import attrs

SECTOR_SIZE = 512  # what a disk writes whole or not at all

Node = Union["FileNode", "DirectoryNode"]
FileChange = tuple[int, bytes | None]  # write these bytes there; or, without bytes, make this the size
NameChange = tuple["DirectoryNode", str, Node | None]  # the name now stands for this, or for nothing


class FileNode:
    """The bytes of a file, under any name."""

    __slots__ = ("data", "durable", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[FileChange] = []

    def write(self, at: int, data: bytes) -> None:
        if not data:  # writing nothing behind the end does not move the end
            return
        try:
            _apply(self.data, at, data)
        except BufferError:  # it is mapped, and a mapped bytearray cannot grow: leave that one to the map
            self.data = bytearray(self.data)
            _apply(self.data, at, data)
        self.pending.append((at, data))

    def truncate(self, size: int) -> None:
        try:
            _apply(self.data, size, None)
        except BufferError:
            assert size > len(self.data), "truncated under a live map: touching it would kill the process"
            self.data = bytearray(self.data)
            _apply(self.data, size, None)
        self.pending.append((size, None))

    def sync(self) -> None:
        for at, data in self.pending:
            _apply(self.durable, at, data)
        self.pending.clear()

    def settle(self, rng: random.Random | None) -> None:
        """Lose power: what is durable stays, and of what is pending stays what `rng` picks, or nothing."""
        fate = "lost" if rng is None or not self.pending else rng.choice(("lost", "kept", "some", "some", "some"))
        if fate == "kept":
            self.sync()
        elif fate == "some" and rng is not None:
            self.durable = _crashed(self.durable, self.pending, rng)
        self.data = bytearray(self.durable)
        self.pending = []


class DirectoryNode:
    """The names in a directory, and what they stand for."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[Edit] = []

    def files(self) -> Iterator[FileNode]:
        """All files in it and below it, in order of their names."""
        for _, node in sorted(self.entries.items()):
            if isinstance(node, DirectoryNode):
                yield from node.files()
            else:
                yield node

    def sync(self) -> None:
        """Make the pending edits durable, and with a rename those of the other directory that it is an edit of too."""
        group = [self]
        for member in group:  # which grows meanwhile
            for edit in member.pending:
                group.extend(directory for directory, _, _ in edit.changes if directory not in group)
        for edit in _in_order(group):
            edit.make_durable()
        for member in group:
            member.pending.clear()

    def settle(self, rng: random.Random | None) -> None:
        """Lose power: each name, here and below, goes back to what it durably was or some way towards what it is."""
        directories = self._all_directories()
        edits = _in_order(directories)
        journalled = rng is not None and rng.random() < 0.5  # then a crash keeps all edits up to some point
        end = rng.randint(0, len(edits)) if rng is not None else 0
        lost: set[tuple[DirectoryNode, str]] = set()  # a change that is lost takes the later ones of its names with it
        for number, edit in enumerate(edits):
            names = {(directory, name) for directory, name, _ in edit.changes}
            reached = number < end if journalled or rng is None else rng.random() < 0.5
            if reached and lost.isdisjoint(names):
                edit.make_durable()
            else:
                lost |= names
        for directory in directories:
            directory.pending.clear()
            directory.entries = dict(directory.durable)

    def _all_directories(self) -> "list[DirectoryNode]":
        """This one and all that a crash could bring up below it."""
        found = {self: None}
        waiting = [self]
        while waiting:
            directory = waiting.pop()
            edited = (node for edit in directory.pending for _, _, node in edit.changes)
            for node in (*directory.entries.values(), *directory.durable.values(), *edited):
                if isinstance(node, DirectoryNode) and node not in found:
                    found[node] = None
                    waiting.append(node)
        return list(found)


@attrs.frozen(eq=False)
class Edit:
    """Changes of names that happen together, in one directory or, for a rename, in two."""

    number: int  # later edits have higher ones
    changes: Sequence[NameChange]

    def make(self) -> None:
        for directory, name, node in self.changes:
            _set(directory.entries, name, node)
            if self not in directory.pending[-1:]:
                directory.pending.append(self)

    def make_durable(self) -> None:
        for directory, name, node in self.changes:
            _set(directory.durable, name, node)


class Cloner:
    """Copies a tree of nodes; what is one node in the original is one node in the copy."""

    __slots__ = ("_edits", "_nodes")

    def __init__(self) -> None:
        self._nodes: dict[Node, Node] = {}
        self._edits: dict[Edit, Edit] = {}

    def directory(self, original: DirectoryNode) -> DirectoryNode:
        clone = self._nodes.get(original)
        if clone is None:
            clone = self._nodes[original] = DirectoryNode()
            clone.entries = {name: self._node(node) for name, node in original.entries.items()}
            clone.durable = {name: self._node(node) for name, node in original.durable.items()}
            clone.pending = [self._edit(edit) for edit in original.pending]
        assert isinstance(clone, DirectoryNode)
        return clone

    def _node(self, original: Node) -> Node:
        if isinstance(original, DirectoryNode):
            return self.directory(original)
        clone = self._nodes.get(original)
        if clone is None:
            clone = self._nodes[original] = FileNode()
            clone.data = bytearray(original.data)
            clone.durable = bytearray(original.durable)
            clone.pending = list(original.pending)
        return clone

    def _edit(self, original: Edit) -> Edit:
        if original not in self._edits:
            changes = [(self.directory(d), name, node and self._node(node)) for d, name, node in original.changes]
            self._edits.setdefault(original, Edit(original.number, changes))
        return self._edits[original]


def _in_order(directories: Iterable[DirectoryNode]) -> list[Edit]:
    """Their pending edits, the earliest first, each once."""
    edits = dict.fromkeys(edit for directory in directories for edit in directory.pending)
    return sorted(edits, key=lambda edit: edit.number)


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


def _crashed(durable: bytearray, pending: Sequence[FileChange], rng: random.Random) -> bytearray:
    """What is on the disk after a power loss: one of the many states that are possible, and all of them are."""
    sizes = [len(durable)]  # before the first change, and after each
    for at, data in pending:
        sizes.append(at if data is None else max(sizes[-1], at + len(data)))
    first = min(at for at, _ in pending) // SECTOR_SIZE  # no sector before this one changed
    sectors = range(first, _sectors(max(sizes)))
    count = rng.randrange(len(pending))  # how many changes reached the disk, and then…
    reached = dict.fromkeys(sectors, count)  # per sector
    if rng.random() < 0.5:  # …the next one was under way, from its start to its end
        at, data = pending[count]
        torn = rng.randint(at // SECTOR_SIZE, _sectors(at + len(data or b"")))
        reached |= dict.fromkeys(range(first, torn), count + 1)
    else:  # …or each sector was written or lost on its own
        reached = {sector: rng.randint(0, len(pending)) for sector in sectors}

    content = durable + bytes(max(sizes) - len(durable))
    blank = set(range(_sectors(len(durable)), sectors.stop))  # sectors the disk gave to the file, but never wrote
    given: set[int] = set()
    for number, (at, data) in enumerate(pending):
        end = sectors.stop * SECTOR_SIZE if data is None else at + len(data)
        touched = range(at // SECTOR_SIZE, _sectors(end))
        if data is not None:
            given.update(touched)
        for sector in touched:
            if number < reached[sector]:
                low, high = max(at, sector * SECTOR_SIZE), min(end, (sector + 1) * SECTOR_SIZE, len(content))
                content[low:high] = bytes(high - low) if data is None else data[low - at : high - at]
                blank.discard(sector)
    if rng.random() < 0.25:
        for sector in sorted(blank & given):
            low, high = sector * SECTOR_SIZE, min((sector + 1) * SECTOR_SIZE, len(content))
            content[low:high] = rng.randbytes(high - low)

    boundaries = range(sizes[count] // SECTOR_SIZE + 1, _sectors(sizes[count + 1]))
    size = rng.choice((sizes[count], sizes[count + 1], *(boundary * SECTOR_SIZE for boundary in boundaries)))
    return content[:size]


def _sectors(size: int) -> int:
    return -(-size // SECTOR_SIZE)
