"""AlterConfigs: the configs of a topic become exactly these; what is not named goes back to its default.

Left out: configs of brokers, which are set in cluster.toml.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.config_resources import Refusal, alter
from actors.serving.kafka.handlers.operations import said
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[AlterConfigsRequest]) -> Generator[None, None, None]:
    return alter(
        call,
        AlterConfigsResponse(),
        AlterConfigsResourceResponse,
        attrgetter("configs"),
        _problem,
        _change,
        replace=True,
    )


def _problem(configs: Sequence[AlterableConfig]) -> Refusal | None:
    missing = next((config.name for config in configs if config.value is None), None)
    if missing is None:
        return None
    return ErrorCode.INVALID_REQUEST, f"{said(missing)} has no value; give one, or leave it out"


def _change(config: AlterableConfig) -> tuple[str, ...]:
    assert config.value is not None
    return config.name, config.value
