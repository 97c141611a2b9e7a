"""Kafka's settings of group coordinators, under their names with underscores."""

from __future__ import annotations

from log.settings.table import broker_field
from protocol.late_attrs import frozen


@frozen(slots=True)
class GroupConfig:
    """Kafka's defaults, but for the initial delay: members of a group on one machine come at once or not at all.

    And but for the number of members, which has a bound here, and of groups, a setting that Kafka does not have.
    """

    group_min_session_timeout_ms: int = broker_field("group.min.session.timeout.ms")
    group_max_session_timeout_ms: int = broker_field("group.max.session.timeout.ms")
    group_initial_rebalance_delay_ms: int = broker_field("group.initial.rebalance.delay.ms")
    group_max_size: int = broker_field("group.max.size")
    offset_metadata_max_bytes: int = broker_field("offset.metadata.max.bytes")
    offsets_retention_minutes: int = broker_field("offsets.retention.minutes")
    offsets_retention_check_interval_ms: int = broker_field("offsets.retention.check.interval.ms")
    group_consumer_session_timeout_ms: int = broker_field("group.consumer.session.timeout.ms")
    group_consumer_heartbeat_interval_ms: int = broker_field("group.consumer.heartbeat.interval.ms")
    group_consumer_max_size: int = broker_field("group.consumer.max.size")
    offsets_topic_max_groups_per_partition: int = broker_field("offsets.topic.max.groups.per.partition")
