"""What this broker does for each operation of the newline-JSON dialect: only what is listed here is advertised.

handler     an operation: its fields, and what is done
cluster     status, versions, metadata, describe_topic, init_producer: answered by this broker
produce     records go to the leaders of their partitions
fetch       records of one partition, from its leader
offsets     earliest, latest, and by time
groups      the connection as a member of a group, and why a group rebalanced
survivors   what the replicas of a partition have, and for which others they wait
recovery    go on with some of them

The operations that the controllers carry out are in actors/serving/json/operations.py.
"""

from __future__ import annotations

from actors.serving.json.connection import Served
from actors.serving.json.handlers import cluster, fetch, groups, offsets, produce, recovery, survivors
from actors.serving.json.operations import OPERATIONS

HANDLERS: dict[str, Served] = {
    "status": cluster.STATUS,
    "metadata": cluster.METADATA,
    "describe_topic": cluster.DESCRIBE_TOPIC,
    "survivors": survivors.SURVIVORS,
    "recover": recovery.Recover(),
    "produce": produce.PRODUCE,
    "init_producer": cluster.INIT_PRODUCER,
    "fetch": fetch.FETCH,
    "offsets": offsets.OFFSETS,
    "subscribe": groups.SUBSCRIBE,
    "poll": groups.POLL,
    "commit": groups.COMMIT,
    "unsubscribe": groups.UNSUBSCRIBE,
    "rebalances": groups.REBALANCES,
    **OPERATIONS,
}
HANDLERS["versions"] = cluster.versions(HANDLERS)
