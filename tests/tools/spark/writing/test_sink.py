"""Real Spark writes to a real cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from protocol.partitioner import partition_for_key
from tests.tools.spark.conftest import MakeTopic
from tests.tools.spark.streams import run_to_end, stream, table
from tools.client.admin import Admin


def test_rows_become_records_with_keys_headers_topics_and_partitions(
    spark: Any, cluster: Cluster, make_topic: MakeTopic
) -> None:
    one, other = make_topic(partitions=3), make_topic(partitions=2)
    rows = spark.range(1_000).selectExpr(
        "concat('key ', id) AS key",
        "CASE WHEN id % 10 = 0 THEN NULL ELSE encode(concat('value ', id), 'utf-8') END AS value",
        f"IF(id % 2 = 0, '{one}', '{other}') AS topic",
        "IF(id % 4 = 1, 1, NULL) AS partition",
        "array(struct('id' AS key, encode(cast(id AS string), 'utf-8') AS value)) AS headers",
    )
    rows.write.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap).mode("append").save()
    found = table(spark, cluster.bootstrap, subscribe=f"{one},{other}", includeHeaders="true").collect()
    assert len(found) == 1_000
    for row in found:
        number = int(bytes(row.headers[0].value))
        assert bytes(row.key) == b"key %d" % number
        assert row.value is None if number % 10 == 0 else bytes(row.value) == b"value %d" % number
        assert row.topic == (other if number % 2 else one)
        count = 2 if number % 2 else 3
        assert row.partition == (1 if number % 4 == 1 else partition_for_key(bytes(row.key), count))


@pytest.mark.parametrize("promise", [{}, {"exactlyOnce": "true"}], ids=["at least once", "exactly once"])
def test_a_stream_is_copied_from_topic_to_topic(
    promise: dict[str, str], spark: Any, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    here, there = make_topic(partitions=2), make_topic(partitions=2)
    target = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": here, "kafka.compression.type": "zstd"}
    spark.range(500).selectExpr("cast(id AS string) AS value").write.format("barnabas").options(**target).mode(
        "append"
    ).save()
    copied = stream(spark, cluster.bootstrap, subscribe=here, maxOffsetsPerTrigger="300").selectExpr("value")
    writer = copied.writeStream.format("barnabas").options(**{**target, "topic": there, **promise})
    run_to_end(writer, tmp_path / "state")
    found = [int(bytes(row.value)) for row in table(spark, cluster.bootstrap, subscribe=there).collect()]
    assert sorted(found) == list(range(500))
    query = json.loads((tmp_path / "state" / "metadata").read_text())["id"]
    with Admin(cluster.bootstrap) as admin:
        ids = [one.transactional_id for one in admin.transactions.list()]
    runs = {one.rsplit("-", 3)[1] for one in ids if one.startswith(f"spark-{query}-")}
    assert [len(run) for run in runs] == ([32] if promise else []), "every run of a query has its own transactions"


def test_what_is_no_record_is_refused(spark: Any, cluster: Cluster) -> None:
    rows = spark.range(1)
    for columns, options, words in (
        (["id AS key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["'x' AS value"], {}, "topic option required when no 'topic' attribute is present"),
        (["id AS value"], {"topic": "t"}, "value attribute type must be string or binary, not bigint"),
    ):
        writer = rows.selectExpr(*columns).write.format("barnabas").mode("append")
        with pytest.raises(Exception, match=words):
            writer.options(**{"kafka.bootstrap.servers": cluster.bootstrap, **options}).save()


def test_a_cluster_that_cannot_write_exactly_once_is_told_so_by_a_real_task(spark: Any) -> None:
    with Cluster(1) as plain:  # without two-phase commit
        plain.admin.create_topic("t", partitions=1, replication_factor=1)
        options = {"kafka.bootstrap.servers": plain.bootstrap, "topic": "t"}
        once = {"exactlyOnce": "true", "exactlyOnceId": "a query", "exactlyOnceBatch": "0"}
        writer = spark.range(1, numPartitions=1).selectExpr("'x' AS value").write.format("barnabas").mode("append")
        with pytest.raises(Exception, match="'exactlyOnce' needs two-phase commit"):
            writer.options(**options, **once).save()
