"""What consumers of classic groups say inside JoinGroup and SyncGroup: the consumer protocol.

Each is behind its version as an int16. Kafka reads a newer version as the newest one it knows.
"""

from __future__ import annotations

from protocol.schema.declaration import Bytes, Int32, String, Versions, field, message, struct


@struct
class TopicPartition:
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


@message(Versions.parse("0-3"), Versions.parse("none"))
class ConsumerProtocolSubscription:
    topics: list[String] = field(factory=list)
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = field("1+", factory=list, ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, ignorable=True)


@message(Versions.parse("0-3"), Versions.parse("none"))
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = field(factory=list)
    user_data: Bytes | None = None
