"""The table of holds: the largest requests are valid, are answered, and are measured."""

from __future__ import annotations

import pytest

from protocol.apis import APIS
from protocol.schema.codec import encode
from tools.holds.largest import Answered, Place, cases
from tools.holds.run import measured

PLACE = Place("large", bytes(16), 100, ("topic-0", "topic-1"))


def test_every_request_of_the_table_can_be_sent() -> None:
    names = {api.name: api for api in APIS.values()}
    told = Answered()
    for case in cases(PLACE):
        request = case.request(told)
        if not isinstance(request, bytes):
            api = names[type(request).__name__.removesuffix("Request")]
            version = api.advertised.last if case.version is None else case.version
            assert version in api.advertised, case.name
            encode(request, version)


@pytest.mark.slow
def test_a_request_is_answered_and_its_longest_step_is_measured() -> None:
    rows = list(measured(brokers=1, partitions=50, topics=5, only="Metadata naming"))
    assert [row.name for row in rows] == [
        "Metadata naming the large topic 30 times",
        "Metadata naming the large topic 300 times",
        "Metadata naming one topic 20,000 times",
    ]
    for row in rows:
        assert row.hold.processor_ms > 0.0
        assert row.hold.what
        assert not row.is_held, row
