"""The syntax of regular expressions over names: RE2's, as far as it says something about such names."""

from __future__ import annotations

import string
import sys

from protocol.late_attrs import frozen

TEXT_SIZE_MAX = 1000
DEPTH_MAX = 50
REPEAT_MAX = 1000

_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset("\t\n\f\r ")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAMED = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "digit": _DIGITS,
    "lower": frozenset(string.ascii_lowercase),
    "punct": frozenset(string.punctuation),
    "space": _SPACE | {"\v"},
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_EVERYTHING: frozenset[str] = frozenset()
"""Negated, it is any character."""


class InvalidPattern(ValueError):
    """An invalid or unsupported regular expression."""


Span = tuple[str, str]
"""All characters from one to another: beyond ASCII there are too many to list."""


@frozen(slots=True)
class OneOf:
    characters: frozenset[str]
    negated: bool = False
    spans: tuple[Span, ...] = ()

    def has(self, character: str) -> bool:
        listed = character in self.characters or any(first <= character <= last for first, last in self.spans)
        return listed is not self.negated


@frozen(slots=True)
class AtBegin:
    """The beginning of the name."""


@frozen(slots=True)
class AtEnd:
    """The end of the name."""


@frozen(slots=True)
class Sequence:
    parts: tuple[Node, ...]


@frozen(slots=True)
class Choice:
    parts: tuple[Node, ...]


@frozen(slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = OneOf | AtBegin | AtEnd | Sequence | Choice | Repeat


def parse(text: str) -> Node:
    if len(text) > TEXT_SIZE_MAX:
        raise InvalidPattern(f"expression is longer than {TEXT_SIZE_MAX} characters")
    return _Parser(text).parsed()


class _Parser:
    """Reads from left to right, one character ahead."""

    __slots__ = ("_at", "_depth", "_folds", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds = False
        """Does case not matter, here?"""

    def parsed(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise InvalidPattern("unexpected )")
        return node

    # -- characters ----------------------------------------------------------------------------------------------

    def _starts(self, prefix: str) -> bool:
        return self._text.startswith(prefix, self._at)

    def _skip(self, prefix: str) -> bool:
        """Is this next? Then go behind it."""
        if not self._starts(prefix):
            return False
        self._at += len(prefix)
        return True

    def _take(self, missing: str) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str, missing: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise InvalidPattern(missing)
        taken = self._text[self._at : stop]
        self._at = stop + len(end)
        return taken

    # -- structure -----------------------------------------------------------------------------------------------

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._skip("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and not self._starts("|") and not self._starts(")"):
            if self._skip(r"\Q"):
                parts.extend(self._literal(one) for one in self._quoted())
                if parts:
                    parts.append(self._repeated(parts.pop()))
            else:
                parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _quoted(self) -> str:
        if r"\E" in self._text[self._at :]:
            return self._until(r"\E", "")
        taken, self._at = self._text[self._at :], len(self._text)
        return taken

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._skip("?")  # lazy: which way is tried first does not matter here
        for sign in "*+?":
            if self._starts(sign):
                raise InvalidPattern(f"invalid nested repetition operator: `{sign}`")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._skip("*"):
            return 0, None
        if self._skip("+"):
            return 1, None
        if self._skip("?"):
            return 0, 1
        stop = self._text.find("}", self._at)
        if not self._starts("{") or stop < 0:
            return None
        least, comma, most = self._text[self._at + 1 : stop].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None  # a brace that is meant as such
        self._at = stop + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > REPEAT_MAX or (high is not None and not low <= high <= REPEAT_MAX):
            raise InvalidPattern(f"invalid repeat count: `{{{least}{comma}{most}}}`")
        return low, high

    def _atom(self) -> Node:
        character = self._take("unexpected end")
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case ".":
                return OneOf(_EVERYTHING, negated=True)
            case "^":
                return AtBegin()
            case "$":
                return AtEnd()
            case "*" | "+" | "?":
                raise InvalidPattern(f"missing argument to repetition operator: `{character}`")
        return self._literal(character)

    def _group(self) -> Node:
        outside = self._folds
        if self._skip("?") and self._flags_only():
            return Sequence(())
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidPattern(f"groups are nested deeper than {DEPTH_MAX}")
        node = self._choice()
        if not self._skip(")"):
            raise InvalidPattern("missing closing )")
        self._depth -= 1
        self._folds = outside
        return node

    def _flags_only(self) -> bool:
        """What follows `(?`: a name, or flags for this group, or for the rest of the group around it."""
        if self._skip("P<") or (not self._starts("<=") and not self._starts("<!") and self._skip("<")):
            name = self._until(">", "missing closing >")
            if not name.isidentifier():
                raise InvalidPattern(f"invalid named capture: `{name}`")
            return False
        begin = self._at
        value = True
        while True:
            match self._take("missing closing )"):
                case "-" if value:
                    value = False
                case "i":
                    self._folds = value
                case "s" | "m" | "U":
                    pass  # there are no lines in a name, and no captures
                case ":":
                    return False
                case ")":
                    return True
                case _:
                    raise InvalidPattern(f"invalid or unsupported syntax: `(?{self._text[begin : self._at]}`")

    # -- sets of characters --------------------------------------------------------------------------------------

    def _literal(self, character: str) -> OneOf:
        return OneOf(self._folded(frozenset(character)))

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._folds:
            return characters
        return frozenset(form for one in characters for form in (one, one.lower(), one.upper()))

    def _escape(self) -> Node:
        character = self._take("trailing backslash")
        if character == "A":
            return AtBegin()
        if character == "z":
            return AtEnd()
        characters, negated = self._escaped(character)
        return OneOf(characters if negated else self._folded(characters), negated)

    def _escaped(self, character: str) -> tuple[frozenset[str], bool]:
        """What a backslash and this stand for: a set, and whether it is the rest that is meant."""
        if character.lower() in _CLASSES:
            return _CLASSES[character.lower()], character.isupper()
        if character in _CONTROLS:
            return frozenset(_CONTROLS[character]), False
        if character == "x":
            digits = self._until("}", "missing closing }") if self._skip("{") else self._take("x") + self._take("x")
            if not digits or not _NAMED["xdigit"].issuperset(digits) or int(digits, 16) > 0x10FFFF:
                raise InvalidPattern(f"invalid escape sequence: `\\x{digits}`")
            return frozenset(chr(int(digits, 16))), False
        if character.isalnum():
            raise InvalidPattern(f"invalid escape sequence: `\\{character}`")
        return frozenset(character), False

    def _class(self) -> Node:
        negated = self._skip("^")
        characters: set[str] = set()
        spans: list[Span] = []
        first = True
        while first or not self._skip("]"):
            first = False
            characters |= self._class_part(spans)
        return OneOf(self._folded(frozenset(characters)), negated, tuple(spans))

    def _class_part(self, spans: list[Span]) -> frozenset[str]:
        """The ASCII characters of one part of a class; what it has beyond those goes to `spans`."""
        if self._skip("[:"):
            name = self._until(":]", "missing closing ]")
            positive = name.removeprefix("^")
            if positive not in _NAMED:
                raise InvalidPattern(f"invalid character class range: `[:{name}:]`")
            if name == positive:
                return _NAMED[positive]
            spans.append(_BEYOND_ASCII)
            return _ASCII - _NAMED[positive]
        low, is_single = self._class_character(spans)
        if not is_single or not self._starts("-") or self._text.startswith("-]", self._at):
            return low
        self._at += 1
        high, is_single = self._class_character(spans)
        if not is_single or min(high) < min(low):
            raise InvalidPattern("invalid character class range")
        if min(high) not in _ASCII:
            spans.append((max(min(low), _BEYOND_ASCII[0]), min(high)))
        return frozenset(one for one in _ASCII if min(low) <= one <= min(high)) | low

    def _class_character(self, spans: list[Span]) -> tuple[frozenset[str], bool]:
        character = self._take("missing closing ]")
        if character != "\\":
            return frozenset(character), True
        characters, negated = self._escaped(self._take("trailing backslash"))
        if negated:
            spans.append(_BEYOND_ASCII)
        return (_ASCII - characters if negated else characters), len(characters) == 1


_ASCII = frozenset(map(chr, range(128)))
_BEYOND_ASCII: Span = ("\x80", chr(sys.maxunicode))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
