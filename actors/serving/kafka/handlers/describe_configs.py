"""DescribeConfigs: the configs of topics and of this broker, with where their values come from.

Left out: loggers, client metrics and groups as resources, and configs of brokers that change while they run.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.config_entries import (
    Entry,
    broker_entries,
    topic_entries,
    usual_topic_entries,
)
from actors.serving.kafka.handlers.config_resources import BROKER, TOPIC, broker_problem, unknown_type
from log.machines.metadata.plans import topic_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from actors.serving.context import Serving
    from actors.serving.kafka.connection import Call


def handle(call: Call[DescribeConfigsRequest]) -> Generator[None, None, DescribeConfigsResponse]:
    """A resource that is named again with the same keys is described once."""
    response, told = DescribeConfigsResponse(), _Told(call)
    wanted = {
        (one.resource_type, one.resource_name, tuple(one.configuration_keys or ())): one
        for one in call.request.resources
    }
    for resource in wanted.values():
        response.results.append(_described(call, resource, told))
        yield
    return response


class _Told:
    """The entries of the response. Those that many topics have in common are made once, and freed once."""

    def __init__(self, call: Call[DescribeConfigsRequest]) -> None:
        self._request = call.request
        usual = usual_topic_entries(call.serving.facts.broker_configs)
        self._usual = {name: (entry, _told(call.request, entry)) for name, entry in usual.items()}

    def of(self, entry: Entry) -> DescribeConfigsResourceResult:
        usual = self._usual.get(entry.name)
        return usual[1] if usual is not None and usual[0] is entry else _told(self._request, entry)


def _described(
    call: Call[DescribeConfigsRequest], resource: DescribeConfigsResource, told: _Told
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        entries = _entries(call.serving, resource)
    except _Refused as refusal:
        result.error_code, result.error_message = refusal.error, str(refusal)
        return result
    wanted = frozenset(resource.configuration_keys or ())
    result.configs = [told.of(entry) for entry in entries if not wanted or entry.name in wanted]
    return result


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def _entries(serving: Serving, resource: DescribeConfigsResource) -> list[Entry]:
    name = resource.resource_name
    if resource.resource_type == BROKER:
        if not name:
            return []  # configs of all brokers that may change while they run: there are none
        problem = broker_problem(serving, name)
        if problem is not None:
            raise _Refused(ErrorCode.INVALID_REQUEST, problem)
        return broker_entries(serving)
    if resource.resource_type != TOPIC:
        raise _Refused(ErrorCode.INVALID_REQUEST, unknown_type(resource.resource_type))
    topic = serving.metadata.topic(name)
    if topic is None:
        problem = topic_name_problem(name)
        if problem is not None:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic_entries(serving, topic.configs)


def _told(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    told = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        told.synonyms = [
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in entry.synonyms
        ]
    return told
