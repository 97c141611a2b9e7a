"""Every committed input has one committed output, and no output is of anything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tools.chaos.transformers import SOURCE


def source_of(output: str) -> str:
    return output.partition(SOURCE)[2]


def check_exactly_once(inputs: Iterable[str], outputs: Iterable[str]) -> Iterator[str]:
    """A line for each input that was not processed or processed twice, and for each output without an input."""
    wanted, counted = set(inputs), Counter(map(source_of, outputs))
    for value, count in counted.items():
        if value not in wanted:
            yield f"processed, but never committed: {value!r}"
        elif count > 1:
            yield f"processed {count} times: {value!r}"
    for value in sorted(wanted - counted.keys()):
        yield f"never processed: {value!r}"
