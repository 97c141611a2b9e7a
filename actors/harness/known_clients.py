"""Which client is at the other end of each connection, as a test names those that it has left open.

A client says its client id with every request; its first is for ApiVersions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from protocol.apis import API_VERSIONS, Api

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call, ServedApis
    from log.machines.transaction.config import TransactionConfig

CLIENTS_MAX = 10_000


class KnownClients:
    """Takes the place of a broker's handlers (ServedApis), and passes every request on to them."""

    def __init__(self, apis: ServedApis) -> None:
        self._apis = apis
        self._ids: dict[str, str] = {}

    @property
    def ids(self) -> dict[str, str]:
        """The client id by the client's `host:port`, of the last CLIENTS_MAX connections, the ended ones too."""
        return dict(self._ids)

    def served(self, settings: TransactionConfig, /) -> tuple[Api, ...]:
        return self._apis.served(settings)

    def handler_of(self, api: Api, /) -> Callable[[Call[Any]], object]:
        handler = self._apis.handler_of(api)
        return partial(self._note, handler) if api is API_VERSIONS else handler

    def _note(self, handler: Callable[[Call[Any]], object], call: Call[Any]) -> object:
        peer = call.connection.peer
        self._ids.pop(peer, None)  # the last one is the newest
        self._ids[peer] = call.head.client_id or ""
        if len(self._ids) > CLIENTS_MAX:
            del self._ids[next(iter(self._ids))]
        return handler(call)
