"""Deadlines that are moved again and again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log.machines.deadlines import Deadlines

STEPS = st.lists(st.tuples(st.sampled_from(["set", "clear", "pop"]), st.integers(0, 4), st.integers(0, 30)))


@given(STEPS)
def test_deadlines_are_those_of_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    plain: dict[int, float] = {}
    for what, key, at in steps:
        if what == "set":
            deadlines.set(key, at)
            plain[key] = at
        elif what == "clear":
            deadlines.clear(key)
            plain.pop(key, None)
        else:
            found = deadlines.pop_due(at)
            due = [one for one in plain if plain[one] <= at]
            assert (found in due) if due else found is None
            if found is not None:
                assert plain[found] == min(plain.values())
                del plain[found]
        assert deadlines.next == min(plain.values(), default=None)


def test_renewed_sessions_cost_nothing_until_their_old_end() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for round_ in range(100):
        for key in range(100):
            deadlines.set(key, 10.0 + round_)
    assert len(deadlines._heap) == 100
    assert deadlines.pop_due(9.0) is None
    assert deadlines.next == 109.0
