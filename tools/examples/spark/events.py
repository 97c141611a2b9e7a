"""Events as columns: the safe deserialiser of the envelope as a decoder, and the function of a service on rows.

A message that is no event of the contract has the same named reason as with plain clients, in the column `_error`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

from tools.examples.envelope import Contract, Envelope, Refused, read
from tools.examples.service import Handle
from tools.pipeline.decoders import ERROR, RECORD

_ENVELOPE = ("event_id", "type", "timestamp", "correlation_id", "sender")
_KINDS: dict[type, DataType] = {str: StringType(), int: LongType(), float: DoubleType()}
_FOLLOWING = "array<struct<topic:string,key:string,value:binary>>"


@frozen
class EventDecoder:
    """The fields of the envelope, and those of the data, as columns."""

    contract: Contract

    def decode(self, records: DataFrame) -> DataFrame:
        kept = ["key", "value", "topic", "partition", "offset", "timestamp"]
        kept += ["headers"] if "headers" in records.columns else []
        read_value = f.udf(partial(_row, dict(self.contract)), self._schema, useArrow=False)
        rows = records.select(f.struct(*kept).alias(RECORD), read_value("value").alias("_event"))
        return rows.select(*(f.col(f"_event.{name}") for name in self._schema.fieldNames()), RECORD)

    @property
    def _schema(self) -> StructType:
        data = _data_fields(self.contract)
        fields = [(name, LongType() if name == "timestamp" else StringType()) for name in _ENVELOPE]
        fields += [(name, _KINDS[kind]) for name, kind in data.items()]
        return StructType([StructField(name, kind) for name, kind in (*fields, (ERROR, StringType()))])


def _data_fields(contract: Contract) -> dict[str, type]:
    return {name: kind for fields in contract.values() for name, kind in fields.items()}


def _row(contract: Contract, value: Any) -> tuple[Any, ...]:
    data = _data_fields(contract)
    event = read(None if value is None else bytes(value), contract)
    if isinstance(event, Refused):
        return (*(None for _ in (*_ENVELOPE, *data)), str(event))
    fields = [
        float(event.data[name]) if kind is float and name in event.data else event.data.get(name)
        for name, kind in data.items()
    ]
    return (*(getattr(event, name) for name in _ENVELOPE), *fields, None)


def events_of(records: DataFrame, contract: Contract) -> DataFrame:
    """The events alone. Messages that are none are left out; `refused` counts them."""
    return EventDecoder(contract).decode(records).where(f.col(ERROR).isNull()).drop(ERROR)


def refused(records: DataFrame, contract: Contract) -> dict[str, int]:
    """How many messages each reason refuses, by its name."""
    wrong = EventDecoder(contract).decode(records).where(f.col(ERROR).isNotNull())
    names = wrong.groupBy(f.substring_index(ERROR, ":", 1).alias("name")).count()
    return {row["name"]: row["count"] for row in names.collect()}


def handled(events: DataFrame, contract: Contract, handle: Handle) -> DataFrame:
    """The records that a service sends for these events: topic, key and value."""
    columns = [*_ENVELOPE, *_data_fields(contract)]
    make = f.udf(partial(_following, handle, columns), _FOLLOWING, useArrow=False)
    return events.select(f.explode(make(f.struct(*columns))).alias("one")).select("one.*")


def _following(handle: Handle, columns: list[str], row: Any) -> list[tuple[str, str, bytes]]:
    fields = {name: row[name] for name in columns}
    envelope = {name: fields.pop(name) for name in _ENVELOPE}
    event = Envelope(**envelope, data={name: value for name, value in fields.items() if value is not None})
    following: Iterable[tuple[str, Envelope]] = handle(event)
    return [(topic, one.correlation_id, one.encode()) for topic, one in following]
