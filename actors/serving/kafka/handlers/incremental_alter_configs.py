"""IncrementalAlterConfigs: configs of topics are set or deleted; lists are also appended to and subtracted from.

Left out: configs of brokers, which are set in cluster.toml.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.config_resources import BROKER, TOPIC, Refusal, alter
from actors.serving.kafka.handlers.operations import said
from log.machines.metadata.plans import APPEND, SUBTRACT
from protocol.error_codes import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_CHANGES = {_APPEND: APPEND, _SUBTRACT: SUBTRACT}
_THROTTLES = {
    BROKER: frozenset(
        {
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        }
    ),
    TOPIC: frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}),
}
"""Configs that kafka-reassign-partitions.sh deletes after every move. They are never set here while brokers run."""


def handle(call: Call[IncrementalAlterConfigsRequest]) -> Generator[None, None, None]:
    return alter(
        call,
        IncrementalAlterConfigsResponse(),
        AlterConfigsResourceResponse,
        _to_alter,
        _problem,
        _change,
        replace=False,
    )


def _to_alter(resource: AlterConfigsResource) -> list[AlterableConfig]:
    """All configs but deleted throttles: these are not set, so nothing has to be done."""
    throttles = _THROTTLES.get(resource.resource_type, frozenset())
    return [one for one in resource.configs if one.config_operation != _DELETE or one.name not in throttles]


def _problem(configs: Sequence[AlterableConfig]) -> Refusal | None:
    for config in configs:
        if config.config_operation not in (_SET, _DELETE, _APPEND, _SUBTRACT):
            text = f"{said(config.name)}: operation {config.config_operation}; set is 0, delete 1, append 2, subtract 3"
            return ErrorCode.INVALID_REQUEST, text
        if config.value is None and config.config_operation != _DELETE:
            return ErrorCode.INVALID_REQUEST, f"{said(config.name)} has no value; give one, or delete it"
    return None


def _change(config: AlterableConfig) -> tuple[str, ...]:
    """A change in the form that the controllers take."""
    if config.config_operation == _DELETE:
        return (config.name,)
    assert config.value is not None
    if config.config_operation == _SET:
        return (config.name, config.value)
    return (config.name, config.value, _CHANGES[config.config_operation])
