"""Orders become payments, and payments become shipments, each in its own query. One order is a poison pill: it becomes
a dead letter, and all other orders are shipped.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tools.examples.stage import Sent, Stage, main
from tools.pipeline.batches import foreach_batch
from tools.pipeline.dead_letters import OFFSET, REASON, DeadLetters
from tools.pipeline.decoders import JsonDecoder
from tools.pipeline.sinks.parquet import ParquetSink
from tools.pipeline.sinks.topic import TopicSink

ORDERS, PAYMENTS, DEAD = "orders", "payments", "orders.dead"
COUNT = 1_000
PILL = b'{"id": "order-poison", "cents": '
DECLINED = "order-0042"


def orders() -> list[Sent]:
    made: list[Sent] = []
    for number in range(COUNT):
        order = {"id": f"order-{number:04}", "cents": 100 + number}
        if order["id"] == DECLINED:
            order["cents"] = -1
        made.append((str(order["id"]).encode(), json.dumps(order).encode()))
    made.insert(COUNT // 2, (b"order-poison", PILL))
    return made


def paid(rows: DataFrame) -> DataFrame:
    """Orders that cannot be paid get an error, and become dead letters."""
    return rows.withColumn("_error", f.when(f.col("cents") <= 0, f.concat(f.lit("cannot pay "), "cents")))


def play(stage: Stage) -> str:
    """Order saga: a poison pill lands in the dead-letter topic while everything else goes through."""
    for topic in (ORDERS, PAYMENTS, DEAD):
        stage.make_topic(topic)
    stage.send(ORDERS, orders())
    decoder = JsonDecoder("id STRING, cents LONG")
    payments = TopicSink(stage.bootstrap, PAYMENTS, key="id")
    dead_letters = DeadLetters(stage.bootstrap, DEAD)
    first = foreach_batch(
        paid, payments, decoder=decoder, dead_letters=dead_letters, checkpoint=stage.checkpoint("payments")
    )
    stage.run(stage.stream(ORDERS, includeHeaders="true").writeStream.foreachBatch(first), "payments")
    shipments = stage.directory / "shipments"
    second = foreach_batch(
        lambda rows: rows, ParquetSink(shipments), decoder=decoder, checkpoint=stage.checkpoint("shipments")
    )
    stage.run(stage.stream(PAYMENTS).writeStream.foreachBatch(second), "shipments")

    shipped = stage.spark.read.parquet(str(shipments)).select("id").collect()
    wanted = {f"order-{number:04}" for number in range(COUNT)} - {DECLINED}
    assert {row.id for row in shipped} == wanted
    assert len(shipped) == len(wanted)
    dead = stage.table(DEAD, includeHeaders="true").select("key", "value", "headers").collect()
    told = {row.key.decode(): {header.key: header.value.decode() for header in row.headers} for row in dead}
    assert told.keys() == {"order-poison", DECLINED}, told
    assert "not JSON" in told["order-poison"][REASON]
    assert told[DECLINED][REASON] == "cannot pay -1"
    assert int(told["order-poison"][OFFSET]) >= 0
    return f"{len(shipped)} orders shipped, {len(dead)} dead letters"


if __name__ == "__main__":
    main(play)
