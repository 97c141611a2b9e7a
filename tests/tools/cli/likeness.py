"""Is a value like a sample of it? The same keys in the same nesting, and values of the same types."""

from __future__ import annotations

from typing import Any

OPEN_KEYS = ("configs", "changed", "value", "key", "unknown")
"""Dicts by names of the user's own, and data, which may be text or base64."""


def assert_like(sample: Any, value: Any, where: str = "$") -> None:
    """None is like anything: what may be absent. An empty list says nothing of its elements."""
    is_open = where.rpartition(".")[2] in OPEN_KEYS and not isinstance(value, list)
    if sample is None or value is None or is_open:
        return
    assert type(value) is type(sample), f"{where}: {value!r}, but the sample says {sample!r}"
    if isinstance(sample, dict):
        assert value.keys() == sample.keys(), where
        for name in sample:
            assert_like(sample[name], value[name], f"{where}.{name}")
    elif isinstance(sample, list):
        samples = sample if len({*map(type, sample)}) > 1 else sample[:1] * len(value)  # a pair, or many of a kind
        for like, one in zip(samples, value, strict=True):
            assert_like(like, one, f"{where}[]")
