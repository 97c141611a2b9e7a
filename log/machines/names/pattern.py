"""Regular expressions over names of topics and such, in RE2's syntax. No expression of a client hangs a broker.

Python's own `re` tries one way after another, so a short expression can take longer than the universe lasts. Here all
ways are followed at once, character by character: the time is the length of the name times the size of the expression,
and both are bounded. What was seen before is looked up.

As in Kafka a name must match as a whole. Refused is what RE2 refuses (back-references, look-around, possessive
repetition) and, beyond that, word boundaries and Unicode classes, which say nothing about most names.
"""

from __future__ import annotations

from log.machines.names.syntax import AtBegin, AtEnd, Choice, InvalidPattern, Node, OneOf, Repeat, Sequence, parse
from protocol.late_attrs import frozen

__all__ = ["InvalidPattern", "NamePattern"]

PROGRAM_SIZE_MAX = 1000
STEPS_KEPT_MAX = 10_000


@frozen(slots=True)
class _Split:
    """Continue at any of these steps."""

    targets: tuple[int, ...]


@frozen(slots=True)
class _Take:
    """Take such a character, then continue at this step."""

    one_of: OneOf


@frozen(slots=True)
class _Found:
    """The end of the expression."""


_Step = _Split | _Take | _Found | AtBegin | AtEnd


class NamePattern:
    """An expression, ready to be matched. Raises InvalidPattern, which says why."""

    __slots__ = ("_first", "_known", "_program", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._program: list[_Step] = []
        self._write(parse(text))
        self._program.append(_Found())
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._first = self._reachable({0}, (AtBegin,))

    def matches(self, name: str) -> bool:
        """Does the whole name match?"""
        at = self._first
        for character in name:
            known = self._known.get((at, character))
            at = self._next(at, character) if known is None else known
            if not at:
                return False
        return any(type(self._program[one]) is _Found for one in self._reachable(at, (AtEnd,)))

    @property
    def steps_known(self) -> int:
        return len(self._known)

    def _next(self, at: frozenset[int], character: str) -> frozenset[int]:
        taken = {one + 1 for one in at if isinstance(step := self._program[one], _Take) and step.one_of.has(character)}
        found = self._reachable(taken, ())
        if len(self._known) >= STEPS_KEPT_MAX:
            self._known.clear()
        self._known[at, character] = found
        return found

    def _reachable(self, start: set[int] | frozenset[int], holding: tuple[type, ...]) -> frozenset[int]:
        """Every step that can be reached without taking a character, where these anchors hold."""
        seen = set(start)
        left = list(start)
        while left:
            one = left.pop()
            step = self._program[one]
            behind: tuple[int, ...] = ()
            if isinstance(step, _Split):
                behind = step.targets
            elif isinstance(step, holding):
                behind = (one + 1,)
            for target in behind:
                if target not in seen:
                    seen.add(target)
                    left.append(target)
        return frozenset(seen)

    # -- from syntax to steps ------------------------------------------------------------------------------------

    def _put(self, step: _Step) -> int:
        if len(self._program) >= PROGRAM_SIZE_MAX:
            raise InvalidPattern("expression is too large")
        self._program.append(step)
        return len(self._program) - 1

    def _write(self, node: Node) -> None:
        match node:
            case OneOf():
                self._put(_Take(node))
            case Sequence(parts):
                for part in parts:
                    self._write(part)
            case Choice(parts):
                self._write_choice(parts)
            case Repeat(part, least, most):
                self._write_repeat(part, least, most)
            case AtBegin() | AtEnd():
                self._put(node)

    def _write_choice(self, parts: tuple[Node, ...]) -> None:
        fork = self._put(_Split(()))
        starts: list[int] = []
        exits: list[int] = []
        for part in parts:
            starts.append(len(self._program))
            self._write(part)
            exits.append(self._put(_Split(())))
        self._program[fork] = _Split(tuple(starts))
        for one in exits:
            self._program[one] = _Split((len(self._program),))

    def _write_repeat(self, part: Node, least: int, most: int | None) -> None:
        for _ in range(least):
            self._write(part)
        if most is None:
            fork = self._put(_Split(()))
            self._write(part)
            self._put(_Split((fork,)))
            self._program[fork] = _Split((fork + 1, len(self._program)))
            return
        forks: list[int] = []
        for _ in range(most - least):
            forks.append(self._put(_Split(())))
            self._write(part)
        for fork in forks:
            self._program[fork] = _Split((fork + 1, len(self._program)))
