"""Events as columns say what the plain deserialiser and the plain services say. No broker is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tools.examples.envelope import Reason, Refused, read
from tools.examples.plain.order_saga import ORDERED, orders, pay, sent_orders


@pytest.fixture(scope="module")
def records(spark: Any) -> Any:
    """Orders with poison pills among them, as the source gives them."""
    from tools.spark.schema import record_schema  # noqa: PLC0415  not without pyspark

    sent = enumerate(sent_orders(orders(7, 100)))
    rows: list[Any] = [(key, value, "orders", 0, offset, None, 0, []) for offset, (key, value) in sent]
    return spark.createDataFrame(rows, record_schema(has_headers=True)).coalesce(1)


def test_columns_have_the_events_and_every_reason(records: Any) -> None:
    from tools.examples.spark.events import EventDecoder  # noqa: PLC0415

    rows = EventDecoder(ORDERED).decode(records).orderBy("_record.offset").collect()
    for (_, value), row in zip(sent_orders(orders(7, 100)), rows, strict=True):
        event = read(value, ORDERED)
        if isinstance(event, Refused):
            assert (row["_error"], row["event_id"], row["cents"]) == (str(event), None, None)
        else:
            assert row["_error"] is None
            assert (row["event_id"], row["type"], row["timestamp"]) == (event.event_id, event.type, event.timestamp)
            assert {name: row[name] for name in event.data} == event.data
    assert {row["_error"].partition(":")[0] for row in rows if row["_error"]} == {one.name for one in Reason}


def test_a_service_on_rows_sends_what_it_sends_on_messages(records: Any) -> None:
    from tools.examples.spark.events import events_of, handled  # noqa: PLC0415

    rows = handled(events_of(records, ORDERED), ORDERED, pay).collect()
    wanted = [(topic, one.correlation_id, one.encode()) for order in orders(7, 100) for topic, one in pay(order)]
    assert sorted((row["topic"], row["key"], bytes(row["value"])) for row in rows) == sorted(wanted)
