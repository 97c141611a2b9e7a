"""Why a Raft group has no leader: the voters that an election waits for, as far as one replica knows."""

from __future__ import annotations

from log.raft.node import RaftNode


def waits_for(node: RaftNode) -> str:
    """For an operator. Empty if there is a leader, or if nothing is known that prevents an election."""
    if node.leader is not None:
        return ""
    if node.is_superseded:
        return (
            f"waits for the metadata, to learn its part in generation {node.latest_generation}, which began elsewhere"
        )
    unreachable, replaced, incomplete = _voters_by_obstacle(node)
    reasons = []
    if unreachable:
        reasons.append(f"{_brokers(unreachable)} cannot be reached")
    if replaced:
        reasons.append(f"{_brokers(replaced)} came back with another data directory")
    if incomplete:
        reasons.append(f"{_brokers(incomplete)} may have lost acknowledged records, so that all voters are needed")
    voters = node.membership.voters
    counted = len(voters) - len(unreachable) - len(replaced)
    needs_all = counted - len(incomplete) < node.membership.majority
    if counted >= node.membership.majority and not (needs_all and counted < len(voters)):
        return ""
    missing = sorted({*unreachable, *replaced})
    return f"waits for {_brokers(missing)}: {'; '.join(reasons)}"


def _voters_by_obstacle(node: RaftNode) -> tuple[list[int], list[int], list[int]]:
    unreachable, replaced, incomplete = [], [], []
    for voter in node.membership.voters:
        is_self = voter.broker == node.broker
        directory, eligible = (node.directory, node.eligible) if is_self else node.seen.get(voter.broker, ("", True))
        if not is_self and voter.broker not in node.online:
            unreachable.append(voter.broker)
        elif directory not in ("", voter.directory):
            replaced.append(voter.broker)
        elif not eligible:
            incomplete.append(voter.broker)
    return unreachable, replaced, incomplete


def _brokers(numbers: list[int]) -> str:
    return f"broker {numbers[0]}" if len(numbers) == 1 else f"brokers {', '.join(map(str, numbers))}"
