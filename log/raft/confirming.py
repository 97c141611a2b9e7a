"""Does a leader still lead? It asks those who vote, and knows once a majority has answered. No clock is trusted here.

    number = begin(node, role, now)         ask, with a number of its own
    reached(node, role) >= number           it led when it asked: nobody was elected in a later term before that

Whoever has voted in a later term does not answer, and a later leader has the votes of a majority. So it does not matter
what a deposed leader has heard: of links that were lost at the other end alone, or while its clock stood still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from log.raft.messages import Confirm, Confirmed

if TYPE_CHECKING:
    from log.raft.node import RaftNode
    from log.raft.roles import Leader


def begin(node: RaftNode, role: Leader, now: float) -> int:
    """Ask everybody. Gives the question's number."""
    role.question += 1
    ask_again(node, role, now)
    return role.question


def ask_again(node: RaftNode, role: Leader, now: float) -> None:
    """The last question: an answer to it is one to all before it."""
    role.asked_at = now
    for broker in node.membership.brokers:
        if broker != node.broker and broker in node.online:
            node.send(broker, Confirm(node.term, node.broker, role.question))


def answer(node: RaftNode, question: Confirm) -> None:
    said = (node.term, node.broker, node.directory, question.number, node.eligible)
    node.send(question.leader, Confirmed(*said))


def on_confirmed(node: RaftNode, role: Leader, answer: Confirmed) -> None:
    """Of one that lost something nobody knows how it voted."""
    if answer.eligible and node.membership.has(answer.follower, answer.directory):
        role.confirmed[answer.follower] = max(answer.number, role.confirmed.get(answer.follower, 0))


def reached(node: RaftNode, role: Leader) -> int:
    """The last question that a majority has answered."""
    numbers = [
        role.question if broker == node.broker else role.confirmed.get(broker, 0) for broker in node.membership.brokers
    ]
    numbers.sort(reverse=True)
    return numbers[node.membership.majority - 1]


def is_open(node: RaftNode, role: Leader) -> bool:
    """Has a question too few answers?"""
    return role.question > 0 and reached(node, role) < role.question
