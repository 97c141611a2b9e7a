"""What a follower does with its leader's messages.

It acknowledges the end that an append verified, never its log's end. It truncates only where an append of the current
term brings another epoch, never because the leader's log is shorter. What it knows to be committed is the lesser of
what the leader says and what it verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from log.raft.messages import Append, Appended, Beat, BeatAnswer, Restart, SparseAppend
from log.raft.roles import Follower
from log.segment.epoch_cache import EpochCache
from protocol.records.batches import BatchHeader, RecordBatches, parse_batches

if TYPE_CHECKING:
    from log.raft.node import RaftNode


def on_append(node: RaftNode, role: Follower, message: Append) -> None:
    """Take in batches that follow on what is here, or say where the logs part."""
    if not _meets(node, message.prev_end, message.prev_epoch):
        end, epoch = _hint(node, message)
        node.send(message.leader, Appended(node.term, node.broker, node.directory, False, end, epoch, node.eligible))
        return
    end = max(message.prev_end, node.log.log_start_offset)
    if len(message.batches):
        if isinstance(message, SparseAppend):
            node.ready.epochs = message.epochs
        end = max(_take_in(node, role, parse_batches(message.batches), message.prev_end), end)
    role.verified = max(role.verified, end)
    role.leader_watermark = max(role.leader_watermark, message.watermark)
    if not node.config.flush_before_ack:
        _acknowledge(node, role, message.leader, role.verified)
    elif _flushed(node) >= end:
        _acknowledge(node, role, message.leader, held(node, role))
    advance(node, role)


def on_beat(node: RaftNode, role: Follower, message: Beat) -> None:
    if message.certain:
        role.certain_watermark = message.watermark
    note_watermark(node, role, message.watermark)
    say_how_far(node, role, message.leader)


def say_how_far(node: RaftNode, role: Follower, leader: int) -> None:
    node.send(leader, BeatAnswer(node.term, node.broker, node.directory, held(node, role), node.eligible))


def note_watermark(node: RaftNode, role: Follower, watermark: int) -> None:
    role.leader_watermark = max(role.leader_watermark, watermark)
    advance(node, role)


def on_restart(node: RaftNode, role: Follower, message: Restart) -> None:
    """Drop everything and begin at the leader's log start, unless we are there already.

    What the leader knew of us may be old: more of its appends may have come since, and been acknowledged. Then this is
    one more probe. And if our log does not meet the leader's at its start, nothing that we have above it is committed,
    since the leader would have that too. An empty log that starts further on may start inside of a batch: it begins
    anew, too.
    """
    start, log = message.log_start, node.log
    epochs = EpochCache.decode(message.epochs, "the leader's epochs")
    is_empty_above = start < log.log_start_offset == log.end_offset
    if not is_empty_above and _meets(node, start, epochs.epoch_at(start - 1)):
        role.verified = max(role.verified, start)
        _acknowledge(node, role, message.leader, held(node, role))
        return
    node.ready.restart = message
    role.verified = start
    node.watermark = max(node.watermark, start)
    _acknowledge(node, role, message.leader, start)


def flushed(node: RaftNode, role: Follower) -> None:
    """More of the log is durable, or need not be any longer: acknowledge it if that was waited for."""
    if role.leader is not None and held(node, role) > role.acknowledged:
        _acknowledge(node, role, role.leader, held(node, role))
        advance(node, role)


def held(node: RaftNode, role: Follower) -> int:
    """Up to where this follower may say that it has the leader's log."""
    return min(role.verified, _flushed(node)) if node.config.flush_before_ack else role.verified


def _flushed(node: RaftNode) -> int:
    """What is on disk of our log, as it will be after the truncation that is asked for."""
    flushed, truncate = node.log.flushed_offset, node.ready.truncate
    return flushed if truncate is None else min(flushed, truncate)


def advance(node: RaftNode, role: Follower) -> None:
    """What is committed, as far as is known here."""
    node.commit(min(role.leader_watermark, held(node, role)))


def _meets(node: RaftNode, prev_end: int, prev_epoch: int) -> bool:
    """Does our log hold (prev_end, prev_epoch)?"""
    log = node.log
    if prev_end > log.end_offset:
        return False
    if prev_end <= max(log.log_start_offset, 0):
        return True  # below our start everything was committed, and so is the leader's
    return log.epochs.epoch_at(prev_end - 1) == prev_epoch


def _hint(node: RaftNode, message: Append) -> tuple[int, int]:
    """Where our log ends, or where the epoch ends that we have there: if that is newer, the last one before it."""
    log = node.log
    if message.prev_end > log.end_offset:
        return log.end_offset, log.epochs.latest
    here = log.epochs.epoch_at(message.prev_end - 1)
    epoch, end = log.epochs.end_of(min(here, message.prev_epoch), log.end_offset)
    return (min(end, message.prev_end), epoch) if epoch >= 0 else (log.log_start_offset, -1)


def _take_in(node: RaftNode, role: Follower, batches: RecordBatches, prev_end: int) -> int:
    """Skip what is here already, cut what contradicts, append the rest. Gives the end that is verified by that."""
    log = node.log
    position, end = 0, prev_end
    for at, header in enumerate(batches.headers):
        if header.next_offset <= log.log_start_offset:  # was here, and is deleted
            position += header.size
            continue
        if header.base_offset >= log.end_offset or log.epochs.epoch_at(header.base_offset) != header.leader_epoch:
            _append(
                node, _cut_for(node, role, header, end), RecordBatches(batches.data[position:], batches.headers[at:])
            )
            return batches.headers[-1].next_offset
        if header.next_offset > log.end_offset:  # we begin inside of it
            return end
        end = header.next_offset
        position += header.size
    return end


def _cut_for(node: RaftNode, role: Follower, first: BatchHeader, end: int) -> int:
    """Where our log must end before this batch, which follows on `end`, is appended.

    Between the two there may be a gap: compaction removed what was there. What is here in that gap, above all that is
    known to be the leader's, may be of one who was deposed before it was committed. It goes, too.
    """
    return min(first.base_offset, max(end, role.verified, node.watermark))


def _append(node: RaftNode, cut: int, batches: RecordBatches) -> None:
    if cut < node.log.end_offset:
        if not node.eligible and cut < node.watermark:  # all voters lost committed records, and this is a learner
            node.watermark = cut
        assert cut >= node.watermark, (
            f"broker {node.broker} would truncate to {cut}, below its watermark {node.watermark}"
        )
        node.ready.truncate = cut
        node.cut_history(cut)
    node.ready.append.append(batches)


def _acknowledge(node: RaftNode, role: Follower, leader: int, end: int) -> None:
    role.acknowledged = max(role.acknowledged, end)
    epoch = node.log.epochs.latest
    node.send(leader, Appended(node.term, node.broker, node.directory, True, end, epoch, node.eligible))
