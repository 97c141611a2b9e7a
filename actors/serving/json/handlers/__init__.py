"""What this broker does for each operation of the newline-JSON dialect: only what is listed here is advertised.

handler.py        an operation: its fields, and what is done
cluster.py        status, versions, metadata, describe_topic, init_producer: answered by this broker
produce.py        records go to the leaders of their partitions; lanes.py keeps their order and sends none twice
fetch.py          records of one partition, from its leader; fetch_gate.py: how many at once
offsets.py        earliest, latest, and by time
groups.py         the connection as a member of a group: membership.py heartbeats, group_reader.py reads for its polls
survivors.py      what the replicas of a partition have, and whom they wait for; recovery.py: go on with some of them
topic_search.py   topics by name, also those that this broker has not heard of yet
at_leader.py      a question to whoever leads a partition, asked again until it is answered

Topics and brokers are administered by the controllers: json_operations.py.
"""

from __future__ import annotations

from actors.serving.json.handlers import cluster, fetch, groups, offsets, produce, recovery, survivors
from actors.serving.json.handlers.handler import Served
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
