"""Generations of a group: an operator accepted a loss and said which replicas go on without the others.

Terms of a later generation are higher than all terms of an earlier one: the generation is in the high bits of the term,
which is Kafka's leader epoch and has 31 bits. A node never adopts a term of another generation from a message: with the
majority of an earlier generation it could be elected in that term. Which replicas vote in a generation is told from
outside (`RaftNode.begin_generation`), never by a message.

A message of a later generation tells a node one thing, that there is one (`RaftNode.hear_generation`). What its own
generation commits from then on will be dropped. So it ceases to lead, stands for no election, grants no vote and
acknowledges nothing until it has been told its part in the later generation. A leader or candidate of an earlier
generation is told so, with the first term of the later one, in which nobody is ever elected. All other messages of an
earlier generation are dropped.

The last term of a generation is used by no candidate: a replica that is not sure in which term it voted last may be set
to it (vote_journal.py) and votes no more then.
"""

from __future__ import annotations

TERM_BITS = 26
GENERATIONS_MAX = (1 << (31 - TERM_BITS)) - 1
_MASK = (1 << TERM_BITS) - 1


def generation_of(term: int) -> int:
    return term >> TERM_BITS


def number_of(term: int) -> int:
    """Which term of its generation it is."""
    return term & _MASK


def first_term(generation: int) -> int:
    """In which there is no election: candidates begin with the one behind it."""
    assert 0 <= generation <= GENERATIONS_MAX, f"generation {generation} has no terms"
    return generation << TERM_BITS


def last_term(generation: int) -> int:
    return first_term(generation) | _MASK


def later(term: int, count: int) -> int:
    """So many terms later, but within the same generation."""
    return min(term + count, last_term(generation_of(term)))
