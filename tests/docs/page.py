"""A Markdown page as what it tells its reader to do: files to write, programs to run, commands to type.

The rules of a page:

- A fence `console` is a terminal: lines that begin with `$ ` are commands (one that ends in a backslash goes on in the
  next line), the lines after them are what they print. `^C` ends a command that would go on.
- A fence whose first line is a comment with a file name (`# orders.toml`) is that file; it is written and not run.
- Any other fence `python` is a program. A fence `text` right after a program is what the program prints.
- `<!-- not run: REASON -->` in the line before a fence leaves it out.
- `<!-- long: REASON -->` there leaves it to `make test-long`.
- `<!-- cluster -->` says that the reader has the cluster of cluster.toml. Other pages start what they need.
- Fences `text` and `json` show something. Every other fence has to be one of the above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field

SHOWN = ("text", "json")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"<!-- (not run|long): (\S.*?) -->")
_FILE = re.compile(r"# ([\w./-]+\.\w+|Dockerfile)")


class PageError(Exception):
    """A page breaks the rules."""


@define
class Step:
    """A command or a program, what the page shows of its output, and in which lines."""

    command: str
    line: int
    printed: list[str]
    printed_at: int
    program: str = ""
    shows: bool = True


@define
class Fence:
    language: str
    text: str
    line: int
    not_run: str = ""
    long: str = ""

    @property
    def file(self) -> str:
        """The name of the file that this fence is, or nothing."""
        found = _FILE.fullmatch(self.text.split("\n", 1)[0]) if self.language not in SHOWN else None
        return found[1] if found else ""


@define
class Page:
    path: Path
    text: str
    fences: list[Fence] = field(factory=list)

    @property
    def needs_cluster(self) -> bool:
        return re.search(r"^<!-- cluster -->$", self.text, re.MULTILINE) is not None

    @property
    def not_run(self) -> list[Fence]:
        return [fence for fence in self.fences if fence.not_run]

    @property
    def is_run(self) -> bool:
        return any(_is_done(fence) and not fence.not_run for fence in self.fences)

    @property
    def is_long(self) -> bool:
        return any(fence.long for fence in self.fences)

    def steps(self, *, long: bool) -> Iterator[Fence | Step]:
        """Files to write, and what to run, in the order of the page."""
        program: Step | None = None
        for fence in self.fences:
            if program is not None:
                if fence.language == "text" and fence.line <= program.line + program.program.count("\n") + 3:
                    program.printed, program.printed_at, program.shows = fence.text.splitlines(), fence.line + 1, True
                yield program
                program = None
            if fence.not_run or (fence.long and not long):
                continue
            if fence.file:
                yield fence
            elif fence.language == "python":
                program = Step("", fence.line, [], fence.line, fence.text, shows=False)
            elif fence.language == "console":
                yield from _commands(fence)
        if program is not None:
            yield program


def read(path: Path) -> Page:
    page = Page(path, path.read_text(encoding="utf-8"))
    lines = page.text.split("\n")
    for found in _FENCE.finditer(page.text):
        first = page.text[: found.start()].count("\n")
        fence = Fence(found[1], found[2], first + 1)
        for kind, reason in _MARKER.findall(lines[first - 1] if first else ""):
            setattr(fence, kind.replace(" ", "_"), reason)
        if not (_is_done(fence) or fence.language in SHOWN or fence.not_run):
            kind = fence.language or "without a language"
            raise PageError(f"{path.name}:{fence.line}: a fence {kind} is neither run, nor shown, nor `not run`")
        page.fences.append(fence)
    return page


def _is_done(fence: Fence) -> bool:
    return fence.language in ("console", "python") or bool(fence.file)


def _commands(fence: Fence) -> Iterator[Step]:
    step: Step | None = None
    for number, line in enumerate(fence.text.splitlines(), fence.line + 1):
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:], number, [], number + 1)
        elif step is None:
            raise PageError(f"line {number}: a fence `console` begins with a command, `$ …`")
        elif step.command.endswith("\\") and not step.printed:
            step.command += f"\n{line}"
            step.printed_at = number + 1
        else:
            step.printed.append(line)
    if step is not None:
        yield step
