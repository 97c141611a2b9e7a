"""Names for topics, groups and transactional ids: no two tests share one, and every run gives the same ones.

A name decides which coordinator something belongs to, so a random one would test something else in each run.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter

_given: Counter[str] = Counter()


def unique(prefix: str) -> str:
    """A name that the test that runs now has for itself."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    _given[test] += 1
    return f"{prefix}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{test} {_given[test]}').hex[:12]}"
