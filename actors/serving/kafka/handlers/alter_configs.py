"""AlterConfigs: the configs of a topic become exactly these; what is not named goes back to its default.

Left out: configs of brokers, which are set in cluster.toml.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from actors.messages.controller import Outcome
from actors.runtime import Gather
from actors.serving.kafka.handlers.config_resources import alter_topic, refusal, times_of
from actors.serving.kafka.handlers.operations import said
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[AlterConfigsRequest]) -> Generator[None, None, None]:
    request, response = call.request, AlterConfigsResponse()
    gather, times = Gather(partial(call.answer, response)), times_of(request.resources)
    for resource in {(one.resource_type, one.resource_name): one for one in request.resources}.values():
        yield
        result = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        count = times[resource.resource_type, resource.resource_name]
        refused = refusal(call.serving, resource, resource.configs, count)
        missing = [config.name for config in resource.configs if config.value is None]
        if refused is None and missing:
            refused = ErrorCode.INVALID_REQUEST, f"{said(missing[0])} has no value; give one, or leave it out"
        if refused is not None:
            result.error_code, result.error_message = refused[0], refused[1] or None
            continue
        gather.begin()
        configs = tuple((config.name, config.value) for config in resource.configs if config.value is not None)
        then = partial(_altered, gather, result)
        alter_topic(call, resource.resource_name, configs, then, validate_only=request.validate_only, replace=True)
    gather.done()


def _altered(gather: Gather, result: AlterConfigsResourceResponse, outcome: Outcome) -> None:
    result.error_code, result.error_message = outcome.error, outcome.error_message
    gather.done()
