"""WriteTxnMarkers: a transaction coordinator ends transactions at the leaders of their partitions."""

from __future__ import annotations

from protocol.apis import WRITE_TXN_MARKERS
from protocol.schema.declaration import Bool, Int8, Int16, Int32, Int64, String, field, message, struct


@struct
class WritableTxnMarkerTopic:
    name: String = ""
    partition_indexes: list[Int32] = field(factory=list)


@struct
class WritableTxnMarker:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False  # True commits
    topics: list[WritableTxnMarkerTopic] = field(factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field("2+", default=0, ignorable=True)


@message(WRITE_TXN_MARKERS.versions, WRITE_TXN_MARKERS.flexible)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(factory=list)


@message(WRITE_TXN_MARKERS.versions, WRITE_TXN_MARKERS.flexible)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(factory=list)
