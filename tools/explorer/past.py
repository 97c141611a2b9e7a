"""What has happened to a group so far: the budgets that are used up, the leader of each term, and what was committed.

None of it ever goes back. A state of a group has the number of its past.
"""

from __future__ import annotations

from attrs import define, evolve, frozen

from tools.explorer.locals import BrokenInvariant, ExploredFacts


@frozen
class Past:
    crashes: int = 0
    faults: int = 0
    batches: int = 0
    timers: int = 0
    leaders: tuple[tuple[int, int], ...] = ()
    """Terms, and the replicas that led them."""
    committed: tuple[tuple[int, int], ...] = ()
    """The numbers of the committed batches, and the terms of the leaders that committed them."""

    def with_leader(self, broker: int, mine: ExploredFacts) -> Past:
        """This replica has been elected. Raises BrokenInvariant if it must not lead."""
        for term, leader in self.leaders:
            if term == mine.term and leader != broker:
                raise BrokenInvariant(f"two leaders in term {term}: {leader} and {broker}")
        for offset, (batch, committed_in) in enumerate(self.committed):
            if committed_in < mine.term and mine.log[offset : offset + 1] != (batch,):
                raise BrokenInvariant(f"{broker} leads term {mine.term} without what was committed at {offset}")
        return evolve(self, leaders=tuple(sorted({*self.leaders, (mine.term, broker)})))

    def with_watermark(self, broker: int, mine: ExploredFacts) -> Past:
        """This replica's high watermark. Raises BrokenInvariant if other batches were committed below it."""
        committed = self.committed
        committed += tuple((batch, mine.term) for batch in mine.log[len(committed) : mine.watermark])
        for offset in range(mine.watermark):
            if mine.log[offset] != committed[offset][0]:
                raise BrokenInvariant(f"{broker} has another batch at {offset} than was committed there")
        return evolve(self, committed=committed)


@define(eq=False)
class Numbered:
    """A past and its number. What it costs to use up more of a budget is computed once."""

    number: int
    past: Past
    costs: dict[str, Numbered]


class Pasts:
    """Pasts by their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Past, int] = {}
        self.by_number: list[Numbered] = []

    def of(self, past: Past) -> Numbered:
        number = self._numbers.setdefault(past, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(Numbered(number, past, {}))
        return self.by_number[number]

    def spent(self, numbered: Numbered, budget: str) -> Numbered:
        """After one more of this budget is used up."""
        after = numbered.costs.get(budget)
        if after is None:
            past = numbered.past
            after = numbered.costs[budget] = self.of(evolve(past, **{budget: getattr(past, budget) + 1}))
        return after
