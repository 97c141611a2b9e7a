"""What a leader does: replicate, commit, keep its quorum, hand over.

Commit is Raft's majority and nothing else: an end is committed once a majority of the voters hold it and its batch is
of this leader's term. What earlier leaders left is committed by a batch of our own, written only if there is something
of theirs to commit: a healthy partition's offsets have no holes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from log.raft import confirming
from log.raft.membership import Membership, Voter
from log.raft.messages import Append, Appended, Beat, BeatAnswer, Recovered, SparseAppend, TimeoutNow
from log.raft.progress import Pace, Progress
from log.raft.ready import Fetch, LeaderBatch
from log.raft.roles import Leader

if TYPE_CHECKING:
    from log.raft.node import RaftNode

NOTHING = memoryview(b"")


def begin(node: RaftNode, role: Leader, now: float) -> None:
    """Elected: find out where every follower stands, and commit what earlier leaders left."""
    if not role.certain and not node.ready.leader_batches:
        node.ready.leader_batches.append(LeaderBatch())
    follow_membership(node, role, now)
    commit(node, role)
    reconcile(node, role, now)


def follow_membership(node: RaftNode, role: Leader, now: float) -> None:
    """Have a progress for every replica but our own, and for nobody else."""
    role.alone = role.alone and node.membership.brokers != (node.broker,)  # those who were lost may vote no more
    replicas = node.replicas - {node.broker}
    for broker in role.progress.keys() - replicas:
        del role.progress[broker]
    for broker in sorted(replicas - role.progress.keys()):
        role.progress[broker] = Progress(node.log.end_offset, now, online=broker in node.online)
        replicate(node, role, broker, now)


def restart_progress(node: RaftNode, role: Leader, broker: int, now: float) -> None:
    """A new link to a follower: what was under way is lost, and what it had may be lost too. Ask it."""
    if broker in role.progress:
        role.progress[broker] = Progress(node.log.end_offset, now, online=True)
        replicate(node, role, broker, now)
        if confirming.is_open(node, role):
            confirming.ask_again(node, role, now)


def pause_progress(role: Leader, broker: int) -> None:
    progress = role.progress.get(broker)
    if progress is not None:
        progress.online = False


def appended(node: RaftNode, role: Leader, base: int, data: memoryview, prev_epoch: int, now: float) -> None:
    """Our own log has grown from `base` by these bytes: send them on to whoever keeps up."""
    end = node.log.end_offset
    message: Append | None = None
    for broker, progress in role.progress.items():
        if progress.match >= base:
            progress.caught_up_at = now  # it had everything until now
        if progress.next != base or progress.pace is not Pace.STREAM or not progress.online:
            continue
        if not progress.has_room(node.config.window_bytes):
            continue
        if message is None:
            message = Append(node.term, node.broker, base, prev_epoch, node.watermark, node.log.log_start_offset, data)
        node.send(broker, message)
        progress.sent(end, len(data), now)
    if node.membership.majority == 1:  # else what we alone have taken in commits nothing
        commit(node, role)
        if not _is_as_wanted(node):  # nobody's answer will make us look
            reconcile(node, role, now)


def replicate(node: RaftNode, role: Leader, broker: int, now: float) -> None:
    """Send a follower what it lacks, as far as the window allows."""
    progress, log = role.progress[broker], node.log
    if not progress.online or progress.waiting:
        return
    if progress.next < log.log_start_offset and progress.next < log.first_offset:
        begin_anew(node, role, broker, now)
    elif progress.pace is Pace.PROBE:
        progress.waiting, progress.sent_at = True, now
        epoch = log.epochs.epoch_at(progress.next - 1)
        append = Append(node.term, node.broker, progress.next, epoch, node.watermark, log.log_start_offset, NOTHING)
        node.send(broker, append)
    elif progress.next < log.end_offset and progress.has_room(node.config.window_bytes) and progress.not_before <= now:
        epoch = log.epochs.epoch_at(progress.next - 1)
        node.ready.fetches.append(Fetch(broker, progress.next, epoch, node.config.fetch_bytes))


def begin_anew(node: RaftNode, role: Leader, broker: int, now: float) -> None:
    """Tell a follower to drop everything and to begin where our log does."""
    progress = role.progress[broker]
    progress.pace, progress.waiting, progress.sent_at = Pace.RESTART, True, now
    node.ready.restarts.append(broker)


def fetched(
    node: RaftNode, role: Leader, fetch: Fetch, data: memoryview, end: int, now: float, epochs: bytes = b""
) -> None:
    """What a Fetch asked for was read: send it, and go on while there is room."""
    progress = role.progress.get(fetch.to)
    if progress is None or progress.next != fetch.prev_end or not progress.online or progress.pace is not Pace.STREAM:
        return
    said = (node.term, node.broker, fetch.prev_end, fetch.prev_epoch, node.watermark, node.log.log_start_offset, data)
    node.send(fetch.to, SparseAppend(*said, epochs) if epochs else Append(*said))
    progress.sent(end, len(data), now)
    if not node.membership.has(fetch.to, progress.directory):
        free_at = node.pacer.spend(len(data), now)
        progress.not_before = free_at if free_at > now else 0.0
    replicate(node, role, fetch.to, now)


def on_answer(node: RaftNode, role: Leader, answer: Appended | BeatAnswer, now: float) -> None:
    """A follower says how far it is."""
    progress = role.progress.get(answer.follower)
    if progress is None:
        return
    progress.answered = True
    role.alone = role.alone and answer.follower not in node.membership.brokers
    progress.directory, progress.eligible = answer.directory, answer.eligible
    if not answer.eligible and answer.end < progress.match:
        progress.lost(answer.end)
        progress.probe_from(answer.end)
    if isinstance(answer, BeatAnswer):
        if answer.end > progress.match:
            progress.acknowledged(answer.end, node.log.end_offset, now)
    elif answer.ok:
        if progress.pace is not Pace.STREAM:
            if answer.end < progress.next:
                return  # to something before our question
            progress.stream_from(answer.end)
        progress.acknowledged(answer.end, node.log.end_offset, now)
    else:
        _find_meeting_point(node, progress, answer)
    if not answer.eligible and progress.match >= max(node.watermark, role.term_start):
        node.send(answer.follower, Recovered(node.term, node.broker))
    if progress.match > node.watermark or not role.certain:  # what is committed already needs no more votes
        commit(node, role)
    if _is_settled(node, role, progress, answer):
        return
    replicate(node, role, answer.follower, now)
    try_transfer(node, role)
    reconcile(node, role, now)


def _is_settled(node: RaftNode, role: Leader, progress: Progress, answer: Appended | BeatAnswer) -> bool:
    """Has this follower been sent everything, and is nobody to come, to go, or to take over? So it is nearly always."""
    return (
        progress.next == node.log.end_offset
        and progress.pace is Pace.STREAM
        and role.successor is None
        and _is_as_wanted(node)
        and node.membership.has(answer.follower, answer.directory)
    )


def _is_as_wanted(node: RaftNode) -> bool:
    membership = node.membership
    return node.wanted == membership.brokers and node.move == membership.move and node.broker in node.wanted


def commit(node: RaftNode, role: Leader) -> None:
    """Raise the watermark to what a majority of voters holds, if that is of our term."""
    membership = node.membership
    held = [_held_by(node, role, voter) for voter in membership.voters]
    held.sort(reverse=True)
    end = held[membership.majority - 1]
    if end > node.watermark and node.log.epochs.epoch_at(end - 1) == node.term:
        role.certain = True
        node.commit(end)


def reconcile(node: RaftNode, role: Leader, now: float) -> None:
    """Bring the membership one step nearer to who shall vote, if that can be done now.

    One change at a time, and none before a batch of our own term is committed: two majorities that do not overlap
    could lose what is committed. A leader that shall not vote hands over first; its successor then removes it.

    Each membership says for which move it was made, the last one too, if nobody has to come or go for that. So it is
    known of a move that is over that no leader who has only heard of earlier ones will undo it.
    """
    if node.history.latest_offset >= node.watermark or node.ready.leader_batches:
        return  # the last change is not committed yet
    if _has_heard_less(node):
        return
    membership = _next_membership(node, role, now)
    if membership is None:
        if node.broker not in node.wanted and role.successor is None and node.wanted:
            keeping_up = in_sync(node, role, now)  # until it has everything, nothing is taken in
            hand_over(node, role, now, among=[broker for broker in node.wanted if broker in keeping_up])
    elif node.log.epochs.epoch_at(node.watermark - 1) == node.term:
        node.ready.leader_batches.append(LeaderBatch(membership))
    elif node.log.epochs.latest != node.term:
        node.ready.leader_batches.append(LeaderBatch())


def _has_heard_less(node: RaftNode) -> bool:
    """Does whoever made the membership know of later moves than we do?"""
    return node.move < node.membership.move


def _next_membership(node: RaftNode, role: Leader, now: float) -> Membership | None:
    """First come those who have caught up and shall vote, then those go who shall not and are not needed."""
    membership = node.membership
    if membership.move != node.move:  # asked for every acknowledgement: no object is made for it
        membership = membership.for_move(node.move)
    for broker in node.wanted:
        progress = role.progress.get(broker)
        if progress is not None and _has_caught_up_as_stranger(node, progress, broker):
            if broker in membership.brokers:  # with another directory, which it will not come back with
                return membership.without(broker)
            return membership.with_voter(Voter(broker, progress.directory))
    unwanted = [broker for broker in membership.brokers if broker not in node.wanted and broker != node.broker]
    if unwanted and all(broker in membership.brokers for broker in node.wanted):
        left = membership.without(unwanted[0])
        if len(in_sync(node, role, now) & set(left.brokers)) >= left.majority:
            return left
    if membership is not node.membership and sorted(membership.brokers) == sorted(node.wanted):
        return membership
    return None


def _has_caught_up_as_stranger(node: RaftNode, progress: Progress, broker: int) -> bool:
    if progress.match < node.watermark:
        return False
    known = progress.online and progress.pace is Pace.STREAM and progress.directory and progress.eligible
    return bool(known and not node.membership.has(broker, progress.directory))


def in_sync(node: RaftNode, role: Leader, now: float) -> set[int]:
    """The voters that keep up: the ISR. Over a new link only who has shown that it has what was written until then."""
    end, oldest, membership = node.log.end_offset, now - node.config.lag_s_max, node.membership
    found = {node.broker}
    for broker, progress in role.progress.items():
        known = progress.online and progress.eligible and progress.pace is not Pace.RESTART
        keeps_up = progress.caught_up_at >= oldest or (progress.match >= end and progress.pace is Pace.STREAM)
        if known and keeps_up and membership.has(broker, progress.directory):
            found.add(broker)
    return found


def has_quorum(node: RaftNode, now: float) -> bool:
    """Was a majority heard within the leader timeout? Only then may a leader answer as one.

    A broker that is heard may be there without its replica, or with one that has followed another since its link was
    lost. It counts once that replica has answered over this link.
    """
    role = node.role
    assert isinstance(role, Leader), "only a leader keeps a quorum"
    oldest, membership, count = now - node.config.leader_timeout_s, node.membership, 0
    for broker in membership.brokers:
        if broker == node.broker:
            count += 1
        elif broker in node.online and node.heard.get(broker, -1.0) >= oldest:
            progress = role.progress.get(broker)
            if progress is not None and progress.answered:
                count += 1
    return count >= membership.majority


def _may_regain_quorum(node: RaftNode, role: Leader, now: float) -> bool:
    """Do links to a majority stand over which the replicas have answered, or have had too little time to answer?

    As long as they do, a leader that is not heard does not step down: the others still follow it, and its process or
    theirs is only behind. A process that is gone or silent loses its link.
    """
    membership, count = node.membership, 0
    for broker in membership.brokers:
        progress = role.progress.get(broker)
        if broker == node.broker:
            count += 1
        elif progress is not None and broker in node.online:
            count += progress.answered or now < progress.linked_at + node.config.leader_timeout_s
    return count >= membership.majority


def lost_all_others(node: RaftNode) -> bool:
    """Are there other voters, and does a link to none of them stand? Who votes alone needs nobody."""
    others = [broker for broker in node.membership.brokers if broker != node.broker]
    return bool(others) and not any(broker in node.online for broker in others)


def tick(node: RaftNode, role: Leader, now: float) -> None:
    """Step down without a quorum; give up a hand-over that takes too long; probe again who does not answer.

    And go on with replicas that are being made, which get so much a second.
    """
    if not role.alone and not _may_regain_quorum(node, role, now):
        node.step_down(now)
        return
    if role.successor is not None and now >= role.successor_until:
        role.passed_over.add(role.successor)
        role.successor = None
        if node.retiring:
            hand_over(node, role, now, among=node.membership.brokers)
        reconcile(node, role, now)
        for broker in role.progress:  # what we could not read for one of them may have been the reason
            replicate(node, role, broker, now)
    if confirming.is_open(node, role) and now >= role.asked_at + node.config.append_timeout_s:
        confirming.ask_again(node, role, now)
    for broker, progress in role.progress.items():
        if progress.owes_word and progress.online and now >= progress.sent_at + node.config.append_timeout_s:
            # What it has may be more than it could tell us: it is told to begin anew only after it has answered.
            known = progress.match if progress.pace is Pace.STREAM else progress.next
            progress.probe_from(max(known, node.log.first_offset))
            replicate(node, role, broker, now)
        elif 0.0 < progress.not_before <= now:
            progress.not_before = 0.0
            replicate(node, role, broker, now)


def next_deadline(node: RaftNode, role: Leader) -> float | None:
    """When `tick` may find something to do: only while somebody is behind or away."""
    deadline = math.inf if role.successor is None else role.successor_until
    if confirming.is_open(node, role):
        deadline = min(deadline, role.asked_at + node.config.append_timeout_s)
    unanswered = False
    for progress in role.progress.values():
        if progress.online:
            unanswered = unanswered or not progress.answered
            if progress.owes_word:
                deadline = min(deadline, progress.sent_at + node.config.append_timeout_s)
            if progress.not_before:
                deadline = min(deadline, progress.not_before)
    if not role.alone and not node.reaches_majority:
        deadline = min(deadline, _quorum_is_lost_at(node))
    if unanswered and not role.alone:
        deadline = min(deadline, _patience_ends_at(node, role))
    return None if deadline == math.inf else deadline


def _patience_ends_at(node: RaftNode, role: Leader) -> float:
    """Until when those count who have not answered yet, if without them there is no quorum."""
    others = [role.progress[broker] for broker in node.membership.brokers if broker in role.progress]
    linked = sorted((one.linked_at for one in others if one.online and not one.answered), reverse=True)
    needed = node.membership.majority - 1 - sum(one.online and one.answered for one in others)
    return linked[needed - 1] + node.config.leader_timeout_s + 0.001 if 0 < needed <= len(linked) else math.inf


def _quorum_is_lost_at(node: RaftNode) -> float:
    """Until when a majority was heard, if nobody is heard any more."""
    others = [broker for broker in node.membership.brokers if broker != node.broker]
    heard = sorted((node.heard.get(broker, 0.0) for broker in others), reverse=True)
    needed = node.membership.majority - 2
    return heard[needed] + node.config.leader_timeout_s + 0.001 if needed >= 0 else math.inf


def try_transfer(node: RaftNode, role: Leader) -> None:
    """Hand over once the successor has everything, and everything is committed: it has nothing to find out then."""
    if role.successor is None or node.watermark < node.log.end_offset:
        return
    progress = role.progress.get(role.successor)
    if progress is not None and progress.online and progress.match >= node.log.end_offset:
        node.send(role.successor, TimeoutNow(node.term, node.broker, node.watermark))


def hand_over(node: RaftNode, role: Leader, now: float, *, among: Sequence[int]) -> bool:
    """Find a successor: of those that can lead, the one with most of our log, and among these the preferred one.

    Who did not take over when it was asked is asked again after the others: it may be about to stop, and say nothing.
    """
    able = [
        (broker in role.passed_over, -progress.match, node.rank(broker), broker)
        for broker, progress in role.progress.items()
        if broker in among and can_lead(node, role, broker)
    ]
    if able:
        wait_for(node, role, min(able)[3], now)
    return bool(able)


def can_lead(node: RaftNode, role: Leader, broker: int) -> bool:
    """Is this a voter that counts, and that is being sent what it lacks?"""
    progress = role.progress.get(broker)
    if progress is None or not progress.online or not progress.eligible or progress.pace is not Pace.STREAM:
        return False
    return node.membership.has(broker, progress.directory)


def wait_for(node: RaftNode, role: Leader, successor: int, now: float) -> None:
    """Take in nothing more until this one has everything, or until that takes too long."""
    role.successor, role.successor_until = successor, now + node.config.transfer_timeout_s
    try_transfer(node, role)


def beats(node: RaftNode, role: Leader) -> list[tuple[int, Beat]]:
    """The heartbeats that this group wants to send now."""
    beat = Beat(node.term, node.broker, node.watermark, role.certain)
    return [(broker, beat) for broker, progress in role.progress.items() if progress.online]


def holders(node: RaftNode, role: Leader, end: int) -> int:
    """How many voters are known to hold everything up to `end`, ourselves among them."""
    return sum(_held_by(node, role, voter) >= end for voter in node.membership.voters)


def _held_by(node: RaftNode, role: Leader, voter: Voter) -> int:
    if voter.broker == node.broker:
        return node.log.flushed_offset if node.config.flush_before_ack else node.log.end_offset
    progress = role.progress.get(voter.broker)
    if progress is None or progress.directory != voter.directory or not progress.eligible:
        return 0
    return progress.match


def _find_meeting_point(node: RaftNode, progress: Progress, answer: Appended) -> None:
    """The follower says where an epoch ends with it; the logs meet at the lesser of that and where it ends here.

    That is below what it was asked. If it is not, this is the answer to an earlier question.
    """
    progress.lost(max(answer.end, 0))
    if answer.epoch < 0:
        progress.probe_from(max(answer.end, 0))
        return
    _, end = node.log.epochs.end_of(answer.epoch, node.log.end_offset)
    meeting = max(min(end, answer.end), 0)
    if meeting < progress.next:
        progress.probe_from(meeting)
