"""A ledger is an append-only topic; the balances are calculated by reading it from the beginning.

Spark reads all transfers, and those up to an offset in the past; the balances must equal those of a loop in Python over
the same transfers. The chain of digests is checked for all rows.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from tools.examples.envelope import Reason
from tools.examples.plain.audit_ledger import CONTRACT, COUNT, LEDGER, as_of, folded, transfers
from tools.examples.poison import pills, with_pills
from tools.examples.spark.events import events_of, refused
from tools.examples.spark.stage import SparkStage
from tools.examples.stage import must
from tools.pipeline.decoders import RECORD


def replayed(ledger: DataFrame) -> dict[str, int]:
    """The balances."""
    both = events_of(ledger, CONTRACT).select(
        f.explode(
            f.array(
                f.struct(f.col("giver").alias("account"), (-f.col("cents")).alias("cents")),
                f.struct(f.col("taker").alias("account"), f.col("cents").alias("cents")),
            )
        ).alias("entry")
    )
    totals = both.groupBy("entry.account").agg(f.sum("entry.cents").alias("balance"))
    return {row["account"]: row["balance"] for row in totals.collect()}


def breaks(ledger: DataFrame) -> int:
    """How many transfers do not follow the one before."""
    in_order = Window.partitionBy(f"{RECORD}.partition").orderBy(f"{RECORD}.offset")
    rows = events_of(ledger, CONTRACT).withColumn("before", f.lag("digest", 1, "").over(in_order))
    digest = f.sha2(f.concat_ws("/", "before", "giver", "taker", f.col("cents").cast("string")), 256)
    return rows.where(digest != f.col("digest")).count()


def play(stage: SparkStage) -> str:
    """Balances from a table, equal to a fold in plain Python."""
    plain = stage.plain
    plain.make_topics(LEDGER, partitions=1)  # one partition: a ledger has one order
    some = transfers(plain.seed, plain.counted(COUNT))
    sent = list(with_pills(some, pills(some[0])))
    plain.send(LEDGER, plain.interrupted(LEDGER, sent))
    balances = replayed(stage.table(LEDGER, minPartitions="2"))
    must(balances == folded(some), "the balances are not those of the transfers")
    must(sum(balances.values()) == 0, "money came or went")
    plain.say(f"{len(balances)} balances")
    past = as_of(len(some))
    offset = [value for _, value in sent].index(some[past].encode())  # one partition: the record's place is its offset
    before = replayed(stage.table(LEDGER, endingOffsets=json.dumps({plain.topic(LEDGER): {"0": offset}})))
    must(before == folded(some[:past]), f"the balances as of transfer {past} are wrong")
    plain.say(f"the balances as of transfer {past:,}")
    broken = breaks(stage.table(LEDGER))
    must(not broken, f"the chain breaks {broken} times")
    wrong = refused(stage.table(LEDGER), CONTRACT)
    must(wrong == dict.fromkeys((one.name for one in Reason), 1), f"refused were {wrong}")
    return (
        f"{len(some):,} transfers in an unbroken chain: {len(balances)} balances, and those as of transfer {past:,}, "
        f"equal the fold; {len(wrong)} wrong messages were counted"
    )
