"""Runs one command, as the program `barnabas` does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from tools.cli import operations


class Output:
    """How a command ended, and what it printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.lines = out.splitlines()


def command(name: str, *arguments: object) -> int:
    """Run it, and give its exit code."""
    module = import_module(f".{name}", operations.__name__)
    parser = argparse.ArgumentParser(prog=f"barnabas {name}", description=module.__doc__)
    module.add_arguments(parser)
    return int(module.run(parser.parse_args([str(one) for one in arguments])))


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
