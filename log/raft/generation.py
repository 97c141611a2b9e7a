"""Generations of a group: an operator accepted a loss and said which replicas go on without the others.

Terms of a later generation are higher than all terms of an earlier one: the generation is in the high bits of the term,
which is Kafka's leader epoch and has 31 bits. A node ignores messages of every other generation than its own and does
not answer them. An answer would tell a voter of an earlier generation the later term, and with the majority of the
earlier generation it could be elected in it. Which replicas vote in a generation is told from outside
(`RaftNode.begin_generation`), never by a message.

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
