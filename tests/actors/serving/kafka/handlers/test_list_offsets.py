"""ListOffsets, asked of a replica that says what it is told to say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.messages.replica import OffsetFound
from actors.runtime import Future
from actors.serving.kafka.handlers import list_offsets
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.log.machines.group.coordinator import new_world

LATEST = -1


def answered(found: OffsetFound, version: int) -> int:
    """The error of the one partition that is asked for."""
    told: list[ListOffsetsResponse] = []

    def ask(_replica: Any, _find: Any, then: Callable[[Future[Any]], None]) -> None:
        future: Future[Any] = Future()
        future.set(found)
        then(future)

    serving = SimpleNamespace(metadata=new_world(orders=1).metadata, replica=lambda *_partition: None)
    wanted = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=LATEST)])
    call = SimpleNamespace(
        request=ListOffsetsRequest(topics=[wanted]),
        serving=serving,
        connection=SimpleNamespace(ask=ask),
        version=version,
        answer=told.append,
    )
    list(list_offsets.handle(cast("Any", call)))
    (response,) = told
    return response.topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.LEADER_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_an_offset_that_is_not_known_yet_is_told_as_the_client_s_version_knows_it(
    version: int, error: ErrorCode
) -> None:
    assert answered(OffsetFound(ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, 3), version) == error


@pytest.mark.parametrize("version", [4, 5])
def test_other_errors_are_told_as_they_are(version: int) -> None:
    assert answered(OffsetFound(ErrorCode.FENCED_LEADER_EPOCH, -1, -1, 3), version) == ErrorCode.FENCED_LEADER_EPOCH
