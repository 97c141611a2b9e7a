"""Runs one command, as the program `barnabas` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tools.cli.root import main


class Output:
    """How a command ended, and what it printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.lines = out.splitlines()


def command(name: str, *arguments: object) -> int:
    """Run it, and give its exit code."""
    return main([name, *map(str, arguments)])


def told(capsys: pytest.CaptureFixture[str], name: str, *arguments: object) -> Output:
    """Run it with its output into a pipe."""
    capsys.readouterr()
    code = command(name, *arguments)
    captured = capsys.readouterr()
    return Output(code, captured.out, captured.err)


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[None]:
    """Let the commands in this block print for a terminal of this width."""
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", str(columns))
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr("sys.stdout.isatty", lambda: True)
        yield
