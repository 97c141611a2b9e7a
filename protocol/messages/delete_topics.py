"""DeleteTopics: by name, and by id from version 6 on."""

from __future__ import annotations

from protocol.apis import DELETE_TOPICS
from protocol.schema.declaration import NO_UUID, Int16, Int32, String, Uuid, field, message, struct


@struct
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid = NO_UUID


@message(DELETE_TOPICS.versions, DELETE_TOPICS.flexible)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[String] = field("0-5", factory=list, ignorable=True)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    name: String | None = field(nullable="6+", default="")
    topic_id: Uuid = field("6+", default=NO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field("5+", default=None, ignorable=True)


@message(DELETE_TOPICS.versions, DELETE_TOPICS.flexible)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(factory=list)
