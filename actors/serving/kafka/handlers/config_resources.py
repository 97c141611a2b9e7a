"""The resources that have configs, as requests name them, and how the configs of topics are altered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actors.cluster_file.config import SETTINGS
from actors.runtime import Gather
from actors.serving.kafka.handlers.operations import SECONDS, new_id, note_outcome, said
from log.machines.metadata.plans import AlterConfigs
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.serving.context import Serving
    from actors.serving.kafka.connection import Call

TOPIC, BROKER = 2, 4
_TYPES = {8: "loggers", 16: "client metrics", 32: "groups"}


class Resource(Protocol):
    """A resource of AlterConfigs or of IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str


class Named(Protocol):
    name: str


C = TypeVar("C", bound=Named)
Refusal = tuple[ErrorCode, str]


def unknown_type(resource_type: int) -> str:
    what = _TYPES.get(resource_type, f"resources of type {resource_type}")
    return f"{what} have no configs here; name a topic ({TOPIC}) or a broker ({BROKER})"


def broker_problem(serving: Serving, name: str) -> str | None:
    """Why this broker cannot answer for the configs of the broker with this name."""
    if name == str(serving.broker):
        return None
    return f"this is broker {serving.broker}, and {said(name)!r} is asked for; ask that broker itself"


def _refusal(serving: Serving, resource: Resource, configs: Sequence[Named], times: int) -> Refusal | None:
    """Why this resource may not be altered so, as far as is known without a controller."""
    if times > 1:
        return ErrorCode.INVALID_REQUEST, "the request has this resource twice"
    twice = [name for name, count in Counter(config.name for config in configs).items() if count > 1]
    if twice:
        return ErrorCode.INVALID_REQUEST, f"the request has {said(twice[0])} twice"
    if resource.resource_type == BROKER:
        return _broker_refusal(serving, resource.resource_name, configs)
    if resource.resource_type != TOPIC:
        return ErrorCode.INVALID_REQUEST, unknown_type(resource.resource_type)
    return None


def _broker_refusal(serving: Serving, name: str, configs: Sequence[Named]) -> Refusal | None:
    problem = broker_problem(serving, name) if name else None
    if problem is not None:
        return ErrorCode.INVALID_REQUEST, problem
    for config in configs:
        if config.name not in SETTINGS:
            near = get_close_matches(said(config.name).lower(), SETTINGS, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(SETTINGS)}"
            return ErrorCode.INVALID_CONFIG, f"there is no broker config {said(config.name)!r}; {remedy}"
        text = f"{config.name} cannot be changed while brokers run; set it in cluster.toml and start the cluster again"
        return ErrorCode.INVALID_CONFIG, text
    return ErrorCode.NONE, ""


def alter(
    call: Call[Any],
    response: Any,
    result_type: Callable[..., Any],
    configs_of: Callable[[Any], Sequence[C]],
    problem_of: Callable[[Sequence[C]], Refusal | None],
    change: Callable[[C], tuple[str, ...]],
    *,
    replace: bool,
) -> Generator[None, None, None]:
    """Alter the configs of each resource that a request names, and answer with the results.

    `configs_of` gives the configs of a resource that are to be altered, `problem_of` what is wrong with them, and
    `change` one of them as the controllers take it.
    """
    gather = Gather(partial(call.answer, response))
    resources: Sequence[Resource] = call.request.resources
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    last = {(resource.resource_type, resource.resource_name): resource for resource in resources}
    for identity, resource in last.items():
        yield
        configs = configs_of(resource)
        result = result_type(resource_type=identity[0], resource_name=identity[1], error_message=None)
        response.responses.append(result)
        refused = _refusal(call.serving, resource, configs, times[identity]) or problem_of(configs)
        if refused is not None:
            result.error_code, result.error_message = refused[0], refused[1] or None
            continue
        gather.begin()
        changes = tuple(change(config) for config in configs)
        operation = AlterConfigs(new_id(), resource.resource_name, changes, call.request.validate_only, replace)
        call.connection.controller.operate(operation, SECONDS, partial(note_outcome, gather, result))
    gather.done()
