"""What may have configs, as requests name it, and how those of a topic are altered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actors.cluster_file.config import SETTINGS
from actors.messages.controller import Outcome
from actors.serving.kafka.handlers.operations import SECONDS, new_id, said
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


R = TypeVar("R", bound=Resource)


def unknown_type(resource_type: int) -> str:
    what = _TYPES.get(resource_type, f"resources of type {resource_type}")
    return f"{what} have no configs here; name a topic ({TOPIC}) or a broker ({BROKER})"


def broker_problem(serving: Serving, name: str) -> str | None:
    """What is wrong with asking this broker for the configs of the one that is called so."""
    if name == str(serving.broker):
        return None
    return f"this is broker {serving.broker}, and {said(name)!r} is asked for; ask that broker itself"


def refusal(serving: Serving, resource: Resource, configs: Sequence[Named], times: int) -> tuple[ErrorCode, str] | None:
    """Why this resource may not be altered so, if that can be told without a controller."""
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


def _broker_refusal(serving: Serving, name: str, configs: Sequence[Named]) -> tuple[ErrorCode, str] | None:
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


def times_of(resources: Iterable[Resource]) -> Counter[tuple[int, str]]:
    """How often the request has each resource."""
    return Counter((one.resource_type, one.resource_name) for one in resources)


def alter_topic(
    call: Call[Any],
    name: str,
    configs: tuple[tuple[str, ...], ...],
    then: Callable[[Outcome], None],
    *,
    validate_only: bool,
    replace: bool,
) -> None:
    """Have the configs of a topic altered."""
    operation = AlterConfigs(new_id(), name, configs, validate_only, replace)
    call.connection.controller.operate(operation, SECONDS, then)
