"""Orders become payments, and payments become shipments, each in its own query; refunds are one batch at the end of the
day. The services' functions are those of the plain scenario. Poison pills become dead letters.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from pyspark.sql import DataFrame

from tools.examples.envelope import Contract, Reason
from tools.examples.plain.order_saga import (
    COUNT,
    DEAD,
    ORDERED,
    ORDERS,
    PAID,
    PAYMENTS,
    SHIPMENTS,
    SHIPPED,
    dead_letters,
    fates,
    orders,
    pay,
    sent_orders,
    ship,
)
from tools.examples.service import Handle
from tools.examples.spark.events import EventDecoder, events_of, handled
from tools.examples.spark.stage import SparkStage
from tools.examples.stage import must
from tools.pipeline.batches import foreach_batch
from tools.pipeline.dead_letters import DeadLetters
from tools.pipeline.sinks.topic import TopicSink

_ENDS = ("payment.declined", "payment.refunded", "shipment.sent")


def play(stage: SparkStage) -> str:
    """Two streams and a batch."""
    plain = stage.plain
    some = orders(plain.seed, plain.counted(COUNT))
    plain.make_topics(ORDERS, PAYMENTS, SHIPMENTS, DEAD)
    plain.send(ORDERS, plain.interrupted(ORDERS, sent_orders(some)))
    _serve(stage, ORDERS, ORDERED, pay, PAYMENTS)
    _serve(stage, PAYMENTS, PAID, ship, SHIPMENTS)
    shipments = events_of(stage.table(SHIPMENTS), SHIPPED)
    refunds = _records(SHIPPED, pay, shipments)
    writer = refunds.write.format("barnabas").mode("append").option("kafka.bootstrap.servers", stage.bootstrap)
    writer.option("topic", plain.topic(PAYMENTS)).save()
    plain.say("refunds are paid")

    columns = ("type", "order", "cents")
    rows = [
        *events_of(stage.table(SHIPMENTS), SHIPPED).select(*columns).collect(),
        *events_of(stage.table(PAYMENTS), PAID).select(*columns).collect(),
    ]
    ends = [(row["order"], row["type"]) for row in rows if row["type"] in _ENDS]
    must(len(ends) == len(dict(ends)), "an order ended twice")
    must(dict(ends) == fates(some), f"orders that end wrongly: {sorted(set(ends) ^ set(fates(some).items()))[:4]}")
    cents: Counter[str] = Counter()
    for row in rows:
        cents[row["type"]] += row["cents"]
    kept = cents["payment.taken"] - cents["payment.refunded"]
    must(kept == cents["shipment.sent"], f"{kept} cents are kept for {cents['shipment.sent']} that was sent")
    letters = dead_letters(plain)
    must(letters == {one.name: one.name for one in Reason}, f"the dead letters are {letters}")
    count = Counter(type_ for _, type_ in ends)
    return (
        f"{count['shipment.sent']:,} orders shipped, {count['payment.declined']} declined, "
        f"{count['payment.refunded']} refunded, {len(letters)} dead letters"
    )


def _serve(stage: SparkStage, source: str, contract: Contract, handle: Handle, target: str) -> None:
    """A service as a stream."""
    sink = TopicSink(stage.bootstrap, stage.plain.topic(target))
    batches = foreach_batch(
        partial(_records, contract, handle),
        sink,
        decoder=EventDecoder(contract),
        dead_letters=DeadLetters(stage.bootstrap, stage.plain.topic(DEAD)),
        checkpoint=stage.checkpoint(target),
    )
    stage.run(stage.stream(source, includeHeaders="true").writeStream.foreachBatch(batches), target)


def _records(contract: Contract, handle: Handle, rows: DataFrame) -> DataFrame:
    return handled(rows, contract, handle).select("key", "value")
