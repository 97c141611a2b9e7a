"""Names in SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A quoted name, which may contain any character."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
