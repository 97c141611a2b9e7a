"""Kafka's APIs: their keys, the versions that are declared, and the ranges that a broker advertises.

The ranges are those of Kafka 4.3. The classes of an API are imported when they are first asked for: a broker starts
without most of them.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from typing import Any

import attrs

from protocol.schema.declaration import Versions


@attrs.frozen(slots=False, eq=False)
class Api:
    """One API. Versions that are advertised but not declared are refused; see messages/produce.py. Compared by its
    identity: it is a key of what is looked up for every request.
    """

    key: int
    name: str
    versions: Versions  # declared
    flexible: Versions
    advertised: Versions

    @cached_property
    def request(self) -> type[Any]:
        """The class of its request."""
        return self._class("Request")

    @cached_property
    def response(self) -> type[Any]:
        """The class of its response."""
        return self._class("Response")

    def _class(self, kind: str) -> type[Any]:
        module = import_module(f"{__package__}.messages.{re.sub('(?<!^)(?=[A-Z])', '_', self.name).lower()}")
        found = getattr(module, self.name + kind)
        assert isinstance(found, type)
        return found


APIS: dict[int, Api] = {}


def _api(key: int, name: str, versions: str, flexible: str, advertised: str | None = None) -> Api:
    declared = Versions.parse(versions)
    made = Api(key, name, declared, Versions.parse(flexible), Versions.parse(advertised) if advertised else declared)
    APIS[key] = made
    return made


PRODUCE = _api(0, "Produce", "3-13", "9+", "0-13")
FETCH = _api(1, "Fetch", "4-18", "12+")
LIST_OFFSETS = _api(2, "ListOffsets", "1-11", "6+")
METADATA = _api(3, "Metadata", "0-13", "9+")
OFFSET_COMMIT = _api(8, "OffsetCommit", "2-10", "8+")
OFFSET_FETCH = _api(9, "OffsetFetch", "1-10", "6+")
FIND_COORDINATOR = _api(10, "FindCoordinator", "0-6", "3+")
JOIN_GROUP = _api(11, "JoinGroup", "0-9", "6+")
HEARTBEAT = _api(12, "Heartbeat", "0-4", "4+")
LEAVE_GROUP = _api(13, "LeaveGroup", "0-5", "4+")
SYNC_GROUP = _api(14, "SyncGroup", "0-5", "4+")
DESCRIBE_GROUPS = _api(15, "DescribeGroups", "0-6", "5+")
LIST_GROUPS = _api(16, "ListGroups", "0-5", "3+")
SASL_HANDSHAKE = _api(17, "SaslHandshake", "0-1", "none")
API_VERSIONS = _api(18, "ApiVersions", "0-4", "3+")
CREATE_TOPICS = _api(19, "CreateTopics", "2-7", "5+")
DELETE_TOPICS = _api(20, "DeleteTopics", "1-6", "4+")
DELETE_RECORDS = _api(21, "DeleteRecords", "0-2", "2+")
INIT_PRODUCER_ID = _api(22, "InitProducerId", "0-6", "2+", "0-5")
OFFSET_FOR_LEADER_EPOCH = _api(23, "OffsetForLeaderEpoch", "2-4", "4+")
ADD_PARTITIONS_TO_TXN = _api(24, "AddPartitionsToTxn", "0-5", "3+")
ADD_OFFSETS_TO_TXN = _api(25, "AddOffsetsToTxn", "0-4", "3+")
END_TXN = _api(26, "EndTxn", "0-5", "3+")
WRITE_TXN_MARKERS = _api(27, "WriteTxnMarkers", "1-2", "1+")
TXN_OFFSET_COMMIT = _api(28, "TxnOffsetCommit", "0-5", "3+")
DESCRIBE_CONFIGS = _api(32, "DescribeConfigs", "1-4", "4+")
ALTER_CONFIGS = _api(33, "AlterConfigs", "0-2", "2+")
DESCRIBE_LOG_DIRS = _api(35, "DescribeLogDirs", "1-5", "2+")
SASL_AUTHENTICATE = _api(36, "SaslAuthenticate", "0-2", "2+")
CREATE_PARTITIONS = _api(37, "CreatePartitions", "0-3", "2+")
DELETE_GROUPS = _api(42, "DeleteGroups", "0-2", "2+")
ELECT_LEADERS = _api(43, "ElectLeaders", "0-2", "2+")
INCREMENTAL_ALTER_CONFIGS = _api(44, "IncrementalAlterConfigs", "0-1", "1+")
ALTER_PARTITION_REASSIGNMENTS = _api(45, "AlterPartitionReassignments", "0-1", "0+")
LIST_PARTITION_REASSIGNMENTS = _api(46, "ListPartitionReassignments", "0", "0+")
OFFSET_DELETE = _api(47, "OffsetDelete", "0", "none")
DESCRIBE_QUORUM = _api(55, "DescribeQuorum", "0-2", "0+")
DESCRIBE_CLUSTER = _api(60, "DescribeCluster", "0-2", "0+")
DESCRIBE_PRODUCERS = _api(61, "DescribeProducers", "0", "0+")
DESCRIBE_TRANSACTIONS = _api(65, "DescribeTransactions", "0", "0+")
LIST_TRANSACTIONS = _api(66, "ListTransactions", "0-2", "0+")
CONSUMER_GROUP_HEARTBEAT = _api(68, "ConsumerGroupHeartbeat", "0-1", "0+")
CONSUMER_GROUP_DESCRIBE = _api(69, "ConsumerGroupDescribe", "0-1", "0+")
DESCRIBE_TOPIC_PARTITIONS = _api(75, "DescribeTopicPartitions", "0", "0+")
