"""Kafka's settings of group coordinators, under their names with underscores."""

from __future__ import annotations

from protocol.late_attrs import frozen


@frozen(slots=True)
class GroupConfig:
    """Kafka's defaults, but for the initial delay: members of a group on one machine come at once or not at all.

    And but for the number of members, which has a bound here, and that of groups, which is our own setting.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 10_000
    offset_metadata_max_bytes: int = 4096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 10_000
    offsets_topic_max_groups_per_partition: int = 20_000
