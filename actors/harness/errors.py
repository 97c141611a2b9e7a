"""What a test did wrong, or what the cluster did not do in time."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


class HarnessError(Exception):
    """The harness was used wrongly, or the cluster did not do what was asked in time."""


def chosen(what: str, name: str, known: Mapping[str, T]) -> T:
    """The value of this name, or a message with a name that is like it."""
    found = known.get(name)
    if found is None:
        folded = {one.lower(): one for one in known}
        near = get_close_matches(str(name).lower(), folded, n=1)
        remedy = f"did you mean {folded[near[0]]!r}?" if near else f"known: {', '.join(sorted(known))}"
        raise HarnessError(f"{what}: there is no {name!r}; {remedy}")
    return found
