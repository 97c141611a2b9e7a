"""Names in SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name, whatever is in it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
