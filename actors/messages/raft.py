"""The wire numbers of Raft's messages, which are declared without actors (log/raft/messages.py)."""

from __future__ import annotations

from actors.runtime import wire
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    BeginFromSnapshot,
    Confirm,
    Confirmed,
    Message,
    Recovered,
    SparseAppend,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)

RAFT_MESSAGES: tuple[type[Message], ...] = (
    VoteRequest, VoteAnswer, Append, Appended, Beat, BeatAnswer, BeginFromSnapshot, TimeoutNow, Recovered,
    SparseAppend, Confirm, Confirmed,
)  # fmt: skip

for _number, _message_class in enumerate(RAFT_MESSAGES, start=0x0200):
    wire(_number)(_message_class)
