"""ListTransactions: the transactional ids that a broker coordinates."""

from __future__ import annotations

from protocol.apis import LIST_TRANSACTIONS
from protocol.schema.declaration import Int16, Int32, Int64, String, field, message, struct


@message(LIST_TRANSACTIONS.versions, LIST_TRANSACTIONS.flexible)
class ListTransactionsRequest:
    state_filters: list[String] = field(factory=list)
    producer_id_filters: list[Int64] = field(factory=list)
    duration_filter: Int64 = field("1+", default=-1)  # milliseconds that it has run at least; -1 for any
    transactional_id_pattern: String | None = field("2+", default=None)


@struct
class TransactionState:
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@message(LIST_TRANSACTIONS.versions, LIST_TRANSACTIONS.flexible)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(factory=list)
    transaction_states: list[TransactionState] = field(factory=list)
