"""DescribeLogDirs: how large the replicas on this broker are, how far behind, and how much room is left.

A broker has one log directory. Left out: replicas on their way from one directory to another, and cordoned directories.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DescribeLog
from actors.runtime import Gather
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.kafka.connection import Call


def handle(call: Call[DescribeLogDirsRequest]) -> Generator[None, None, None]:
    request, serving = call.request, call.serving
    directory = serving.context.data_dir
    total, usable = _room(directory)
    result = DescribeLogDirsResult(log_dir=directory, total_bytes=total, usable_bytes=usable)
    gather = Gather(partial(call.answer, DescribeLogDirsResponse(results=[result])))
    wanted = None if request.topics is None else {one.topic: set(one.partitions) for one in request.topics}
    for topic in list(serving.metadata.topics.values()):
        yield
        if wanted is not None and topic.name not in wanted:
            continue
        here = [number for number, one in enumerate(topic.partitions) if serving.broker in one.keepers]
        numbers = here if wanted is None else [number for number in here if number in wanted[topic.name]]
        told = DescribeLogDirsTopic(name=topic.name)
        if numbers:
            result.topics.append(told)
        for number in numbers:
            gather.begin()
            then = partial(_described, gather, told, number)
            call.connection.ask(serving.replica(topic, number), DescribeLog(), then)
            yield
    gather.done()


def _room(directory: str) -> tuple[int, int]:
    """The bytes of the disk, in all and still free; -1 if they are not known."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return -1, -1
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def _described(gather: Gather, told: DescribeLogDirsTopic, number: int, future: Future[Any]) -> None:
    if future.exception is None:  # else it is not made yet, or gone
        log = future.get()
        told.partitions.append(
            DescribeLogDirsPartition(partition_index=number, partition_size=log.size_bytes, offset_lag=log.lag)
        )
    gather.done()
