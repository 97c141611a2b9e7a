"""Kafka's settings of producers with ids and of their transactions, under their names with underscores."""

from __future__ import annotations

from log.settings.table import broker_field
from protocol.late_attrs import frozen


@frozen(slots=True)
class TransactionConfig:
    """Kafka's defaults. The number of transactional ids is a setting that Kafka does not have."""

    transaction_max_timeout_ms: int = broker_field("transaction.max.timeout.ms")
    transactional_id_expiration_ms: int = broker_field("transactional.id.expiration.ms")
    producer_id_expiration_ms: int = broker_field("producer.id.expiration.ms")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = broker_field(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    transaction_two_phase_commit_enable: bool = broker_field("transaction.two.phase.commit.enable")
    transaction_state_log_max_ids_per_partition: int = broker_field("transaction.state.log.max.ids.per.partition")
