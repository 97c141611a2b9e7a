"""What single brokers know: the ends of the logs that they lead, and their disks. Reached as `Admin.brokers`.

A question goes to one broker, once, and is not retried: for tools that show a cluster as it is, also when it is ill.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from protocol.apis import API_VERSIONS, DESCRIBE_LOG_DIRS, LIST_OFFSETS, Api
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.list_offsets import ListOffsetsResponse
from tools.client.administration.questions import Questions
from tools.client.errors import check
from tools.client.metadata import TopicPartition
from tools.client.offsets import LATEST, OffsetAt, offsets_request, offsets_told


@frozen
class BrokerDisks:
    """A broker's log directories together. `free_bytes` and `total_bytes` are −1 where the broker does not tell."""

    sizes: dict[TopicPartition, int]
    """The bytes of each replica."""
    free_bytes: int
    total_bytes: int


class BrokerQuestions(Questions):
    """Every method waits for its answer, for at most the time that the admin's patience has for a request."""

    def offsets(
        self, broker: int, wheres: Iterable[TopicPartition], at: int = LATEST
    ) -> dict[TopicPartition, OffsetAt]:
        """Offsets of these partitions by time, as far as this broker leads them; the ends, if no time is given."""
        wanted = [(where, at) for where in wheres]
        request = offsets_request(self._cluster.view, wanted, committed=False, seconds=self._seconds)
        response: ListOffsetsResponse = self._ask_once(LIST_OFFSETS, request, broker)
        return {where: one for where, one in offsets_told(response).items() if isinstance(one, OffsetAt)}

    def versions(self, broker: int) -> dict[int, tuple[int, int]]:
        """The first and the last version that a broker advertises, by the key of the API."""
        response: ApiVersionsResponse = self._ask_once(API_VERSIONS, ApiVersionsRequest(), broker)
        check(response.error_code, f"the versions of broker {broker}")
        return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def disks(self, broker: int) -> BrokerDisks:
        """The replicas of a broker and the room on its disks."""
        response: DescribeLogDirsResponse = self._ask_once(
            DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None), broker
        )
        check(response.error_code, f"the disks of broker {broker}")
        sizes: dict[TopicPartition, int] = {}
        free = total = 0
        for directory in response.results:
            check(directory.error_code, f"{directory.log_dir} of broker {broker}")
            free, total = free + directory.usable_bytes, total + directory.total_bytes
            for topic in directory.topics:
                for one in topic.partitions:
                    sizes[TopicPartition(topic.name, one.partition_index)] = one.partition_size
        return BrokerDisks(sizes, max(free, -1), max(total, -1))

    def _ask_once(self, api: Api, request: object, broker: int) -> Any:
        if broker not in self._cluster.view.brokers:
            self._cluster.refreshed(self._seconds)
        return self._call(api, request, broker)
