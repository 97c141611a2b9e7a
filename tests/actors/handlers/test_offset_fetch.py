"""OffsetFetch at brokers that are not the group's coordinator."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.actors.handlers.wire_client import WireClient

ERROR_FROM = 2


@pytest.mark.parametrize("version", range(1, 8))
def test_a_refusal_stands_where_any_client_looks(clients: dict[int, WireClient], version: int) -> None:
    """aiokafka looks at partitions alone: it took a moving coordinator for a group that has read nothing."""
    topics = [OffsetFetchRequestTopic(name="first", partition_indexes=[0, 1])]
    refused = 0
    for client in clients.values():
        answer = client.ask(OffsetFetchRequest(group_id="kitchen", topics=topics), version)
        codes = {one.error_code for topic in answer.topics for one in topic.partitions}
        assert len(codes) == 1
        assert version < ERROR_FROM or codes == {answer.error_code}
        refused += codes != {ErrorCode.NONE}
    assert refused >= len(clients) - 1
