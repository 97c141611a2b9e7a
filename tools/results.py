"""The results of a program as JSON lines: `--json` of bench, chaos and simulator. All text goes to stderr meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

_OUT: ContextVar[TextIO | None] = ContextVar("results", default=None)
"""Where results go; None if they are not wanted in JSON."""


@contextmanager
def json_lines(*, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    token = _OUT.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _OUT.reset(token)


def tell(**facts: object) -> None:
    """One result, if results are wanted in JSON."""
    out = _OUT.get()
    if out is not None:
        print(json.dumps(facts, ensure_ascii=False), file=out, flush=True)
