"""A ledger is an append-only topic; the balances are calculated by reading it from the beginning.

Spark reads all transfers, and those up to an offset in the past; the balances must equal those of a loop in Python over
the same transfers.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tools.examples.stage import Sent, Stage, main

LEDGER = "ledger"
ACCOUNTS, TRANSFERS = 20, 5_000
AUDITED = 3_000
Transfer = tuple[str, str, int]


def transfers() -> list[Transfer]:
    """From, to, and how many cents."""
    chance = random.Random(11)
    accounts = [f"account-{number:02}" for number in range(ACCOUNTS)]
    made = []
    for _ in range(TRANSFERS):
        giver, taker = chance.sample(accounts, 2)
        made.append((giver, taker, chance.randrange(1, 100_00)))
    return made


def folded(some: Iterable[Transfer]) -> dict[str, int]:
    balances: Counter[str] = Counter()
    for giver, taker, cents in some:
        balances[giver] -= cents
        balances[taker] += cents
    return dict(balances)


def replayed(ledger: DataFrame) -> dict[str, int]:
    rows = ledger.select(
        f.from_json(f.col("value").cast("string"), "giver STRING, taker STRING, cents LONG").alias("one")
    ).select("one.*")
    both = rows.select(
        f.explode(
            f.array(
                f.struct(f.col("giver").alias("account"), (-f.col("cents")).alias("cents")),
                f.struct(f.col("taker").alias("account"), f.col("cents").alias("cents")),
            )
        ).alias("entry")
    )
    totals = both.groupBy("entry.account").agg(f.sum("entry.cents").alias("balance"))
    return {row.account: row.balance for row in totals.collect()}


def encoded(transfer: Transfer) -> Sent:
    giver, taker, cents = transfer
    return giver.encode(), json.dumps({"giver": giver, "taker": taker, "cents": cents}).encode()


def play(stage: Stage) -> str:
    """Audit ledger: balances rebuilt by replay, equal to a fold in plain Python."""
    stage.make_topic(LEDGER, partitions=1)  # one partition: a ledger has one order
    some = transfers()
    stage.send(LEDGER, map(encoded, some))
    balances = replayed(stage.table(LEDGER, minPartitions="2"))
    assert balances == folded(some)
    assert sum(balances.values()) == 0
    past = replayed(stage.table(LEDGER, endingOffsets=json.dumps({LEDGER: {"0": AUDITED}})))
    assert past == folded(some[:AUDITED])
    return f"{len(some)} transfers: {len(balances)} balances, and those as of transfer {AUDITED}, equal the fold"


if __name__ == "__main__":
    main(play)
