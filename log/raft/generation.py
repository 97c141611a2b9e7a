"""Generations of a Raft group: an operator accepted a loss and named the replicas that continue without the others.

Terms of a later generation are higher than all terms of an earlier one: the generation is in the high bits of the term,
which is Kafka's leader epoch and has 31 bits. A node never adopts a term of another generation from a message: with the
majority of an earlier generation it could be elected in that term. The voters of a generation come from outside
(`RaftNode.begin_generation`), never from a message.

Of a message of a later generation a node learns only that there is one (`RaftNode.hear_generation`). What the node's
own generation commits from then on will be dropped. So the node ceases to lead, stands for no election, grants no vote
and acknowledges nothing until it knows its part in the later generation. A leader or candidate of an earlier
generation is answered with the first term of the later one, in which no candidate is ever elected. All other messages
of an earlier generation are dropped.

No candidate uses the last term of a generation: a replica that does not know in which term it voted last may be set to
it (log/replica/vote_journal.py), and grants no more votes then.
"""

from __future__ import annotations

TERM_BITS = 26
GENERATIONS_MAX = (1 << (31 - TERM_BITS)) - 1
_MASK = (1 << TERM_BITS) - 1


def generation_of(term: int) -> int:
    return term >> TERM_BITS


def number_of(term: int) -> int:
    """The number of a term within its generation."""
    return term & _MASK


def first_term(generation: int) -> int:
    """There is no election in it: candidates begin with the next one."""
    assert 0 <= generation <= GENERATIONS_MAX, f"generation {generation} has no terms"
    return generation << TERM_BITS


def last_term(generation: int) -> int:
    return first_term(generation) | _MASK


def later(term: int, count: int) -> int:
    """The term that is `count` later, but within the same generation."""
    return min(term + count, last_term(generation_of(term)))
