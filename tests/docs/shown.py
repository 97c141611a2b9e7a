"""Is what was printed what a page shows? What differs from run to run is not compared.

These are taken as equal: times and durations, process ids, ids of topics, members and clusters, which broker leads a
partition in which epoch, which one is the controller and which one logged a line, sizes, checksums, widths of columns.
`…` in a page is any text, and `…` as a line is any lines.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_VARIES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{13}\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b|\b\d:\d\d:\d\d\b"), "DURATION"),
    (re.compile(r"\bpid \d+"), "pid PID"),
    (re.compile(r"\bin epoch \d+|\bpartitionLeaderEpoch: \d+"), "EPOCH"),
    (re.compile(r"^(\s*\d+\s+)\d+\s+\d+(\s+\d(,\d)*\s+\d(,\d)*)"), r"\1LEADER EPOCH\2"),
    (re.compile(r"(:\d{4,5}\s+yes\s+)(yes|no)"), r"\1CONTROLLER"),
    (re.compile(r"\bbroker=\d+"), "BROKER"),
    (re.compile(r"\bcontroller \d+"), "CONTROLLER"),
    (re.compile(r"\b\d+(\.\d+)? [kMGT]?B\b"), "SIZE"),
    (re.compile(r"\bcrc: \d+"), "crc"),
    (re.compile(r'"(pid|actors)":\d+'), r'"\1":NUMBER'),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"[─━═]+"), "─"),
    (re.compile(r"[ \t]+"), " "),
]


def plain(text: str) -> list[str]:
    """The lines that a terminal would show."""
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")
    return [line.rsplit("\r", 1)[-1].rstrip() for line in lines]


def is_shown(printed: list[str], page: list[str]) -> bool:
    """True if these lines are those of the page, but for what varies."""
    pattern = "".join(r"(?:[^\n]*\n)*?" if line.strip() == "…" else f"{_pattern(line)}\n" for line in map(_even, page))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in map(_even, printed))) is not None


def _pattern(line: str) -> str:
    return "[^\n]*".join(map(re.escape, line.split("…")))


def _even(line: str) -> str:
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return line.strip()
