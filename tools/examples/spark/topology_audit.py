"""The senders that follow each other, as a table: the sender of each event beside the one before, by correlation id."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import Window
from pyspark.sql import functions as f

from tools.examples.envelope import Reason
from tools.examples.plain.topology_audit import (
    CONTRACT,
    COUNT,
    EVENTS,
    PARTITIONS,
    UNDECLARED,
    audit_cluster,
    events,
    shown,
    told,
    undeclared,
    ways,
)
from tools.examples.poison import pills, with_pills
from tools.examples.spark.events import events_of, refused
from tools.examples.spark.stage import SparkStage
from tools.examples.stage import must
from tools.pipeline.decoders import RECORD


def play(stage: SparkStage) -> str:
    """The services from a table, and the cluster from its metadata."""
    plain = stage.plain
    some = events(plain.seed, plain.counted(COUNT))
    plain.make_topics(EVENTS, partitions=PARTITIONS)
    plain.send(EVENTS, plain.interrupted(EVENTS, list(with_pills(some, pills(some[0])))))
    cluster = audit_cluster(plain)
    plain.say(str(cluster))
    must(cluster.leaderless == 0, f"the cluster is not whole: {cluster}")
    rows = events_of(stage.table(EVENTS), CONTRACT).cache()
    in_order = Window.partitionBy("correlation_id").orderBy(f"{RECORD}.offset")
    pairs = rows.withColumn("before", f.lag("sender").over(in_order)).where(f.col("before").isNotNull())
    counted = pairs.groupBy("before", "sender").count().collect()
    found = Counter({(row["before"], row["sender"]): row["count"] for row in counted})
    places = rows.groupBy("correlation_id").agg(f.countDistinct(f"{RECORD}.partition").alias("places"))
    must(places.where("places > 1").count() == 0, "requests in more than one partition")
    requests = places.count()
    rows.unpersist()
    wanted = ways(some)
    must(found == wanted, f"the ways are {shown(found)}, and must be {shown(wanted)}")
    must(undeclared(found) == [UNDECLARED], f"undeclared ways: {undeclared(found)}")
    wrong = refused(stage.table(EVENTS), CONTRACT)
    must(wrong == dict.fromkeys((one.name for one in Reason), 1), f"refused were {wrong}")
    return f"{told(found, f'{len(some):,} events of {requests:,} requests')}; {cluster}"
