"""Constants and functions of production that are others while a run lasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Patch = tuple[object, str, object]
"""A module or a class, the name of an attribute, and its value meanwhile."""


@contextmanager
def replaced(patches: Iterable[Patch]) -> Iterator[None]:
    """While this lasts, these attributes have other values."""
    patches = tuple(patches)
    originals = [target.__dict__[name] for target, name, _ in patches]
    for target, name, value in patches:
        setattr(target, name, value)
    try:
        yield
    finally:
        for (target, name, _), original in zip(patches, originals, strict=True):
            setattr(target, name, original)
