"""The uniform assignor: even and sticky.

Members that all subscribe to the same topics get as many partitions as each other, or one more, and keep as many as
that allows: no partition moves without need. Where members subscribe to different topics there may be no even share.
Then no partition is left that could move to a member that subscribes to it and has at least two fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

from log.machines.group.consumer.assignment import Assignment, TopicPartition
from log.machines.group.consumer.subscriber import Subscriber


def assign_uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, Assignment]:
    if not members:
        return {}
    wanted = {frozenset(one.topics) for one in members.values()}
    given = _evenly(members, topics) if len(wanted) == 1 else _balanced(members, topics)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


# -- all want the same -------------------------------------------------------------------------------------------


def _evenly(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, set[TopicPartition]]:
    wanted = next(iter(members.values())).topics
    free = {(topic_id, number) for topic_id in topics if topic_id in wanted for number in range(topics[topic_id])}
    share, larger = divmod(len(free), len(members))
    held: dict[str, list[TopicPartition]] = {}
    for member_id in sorted(members):
        held[member_id] = sorted(members[member_id].current & free)
        free.difference_update(held[member_id])
    # Those with most are the first to get one more than the others: they give up least.
    quotas: dict[str, int] = {}
    for member_id in sorted(held, key=lambda member_id: (-len(held[member_id]), member_id)):
        quotas[member_id] = share + (larger > 0)
        larger -= larger > 0
    given: dict[str, set[TopicPartition]] = {}
    for member_id, quota in quotas.items():
        given[member_id] = set(held[member_id][:quota])
        free.update(held[member_id][quota:])
    _deal(sorted(free), given, quotas)
    return given


def _deal(free: list[TopicPartition], given: dict[str, set[TopicPartition]], quotas: dict[str, int]) -> None:
    """Give free partitions one by one to the member with the fewest, until each member has its quota."""
    short = [(len(partitions), member_id) for member_id, partitions in given.items()]
    heapify(short)
    for partition in free:
        while True:
            count, member_id = heappop(short)
            if count < quotas[member_id]:
                break
        given[member_id].add(partition)
        heappush(short, (count + 1, member_id))


# -- members want different topics -------------------------------------------------------------------------------


def _balanced(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, set[TopicPartition]]:
    shares = _kept(members, topics)
    sizes = dict.fromkeys(sorted(members), 0)
    for share in shares.values():
        for member_id, numbers in share.items():
            sizes[member_id] += len(numbers)
    # Topics with few subscribers come first: these members can get little else.
    order = sorted((topic_id for topic_id in shares if shares[topic_id]), key=lambda one: (len(shares[one]), one))
    for topic_id in order:
        share = shares[topic_id]
        taken = {number for numbers in share.values() for number in numbers}
        least = [(sizes[member_id], member_id) for member_id in share]
        heapify(least)
        for number in range(topics[topic_id]):
            if number not in taken:
                size, member_id = least[0]
                share[member_id].add(number)
                sizes[member_id] = size + 1
                heapreplace(least, (size + 1, member_id))
    while any(_was_uneven(shares[topic_id], sizes) for topic_id in order):
        pass  # every move makes the sum of the squares of the sizes less, so it ends
    given: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    for topic_id, share in shares.items():
        for member_id, numbers in share.items():
            given[member_id].update((topic_id, number) for number in numbers)
    return given


def _kept(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[bytes, dict[str, set[int]]]:
    """For each topic its subscribers, each with the partitions that it had of it and that still exist."""
    shares: dict[bytes, dict[str, set[int]]] = {topic_id: {} for topic_id, count in topics.items() if count}
    taken: set[TopicPartition] = set()
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            if topic_id in shares:
                shares[topic_id][member_id] = set()
        for topic_id, number in members[member_id].current - taken:
            if topic_id in shares and member_id in shares[topic_id] and number < topics[topic_id]:
                shares[topic_id][member_id].add(number)
                taken.add((topic_id, number))
    return shares


def _was_uneven(share: dict[str, set[int]], sizes: dict[str, int]) -> bool:
    """Move partitions of one topic from members with many to members with few. True if one was moved.

    A member that gets one has at most one more than any other by then, so it never has to give one: each heap needs to
    know only its own side's changes.
    """
    ranked = sorted(share)
    least = [(sizes[member_id], member_id) for member_id in ranked]
    most = [(-sizes[member_id], -rank) for rank, member_id in enumerate(ranked) if share[member_id]]
    heapify(least)
    heapify(most)
    numbers: dict[str, list[int]] = {}
    moved = False
    while -most[0][0] > least[0][0] + 1:
        size, taker = least[0]
        giver = ranked[-most[0][1]]
        if giver not in numbers:
            numbers[giver] = sorted(share[giver])
        number = numbers[giver].pop()
        share[giver].remove(number)
        share[taker].add(number)
        sizes[giver] -= 1
        sizes[taker] = size + 1
        heapreplace(least, (size + 1, taker))
        if share[giver]:
            heapreplace(most, (-sizes[giver], most[0][1]))
        else:
            heappop(most)
        moved = True
        if not most:
            break
    return moved
