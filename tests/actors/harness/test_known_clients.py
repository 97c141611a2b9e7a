"""The clients of a cluster, by their connections."""

from __future__ import annotations

import pytest

from actors.harness import Cluster, known_clients
from protocol.messages.api_versions import ApiVersionsRequest
from tests.actors.serving.kafka.handlers.wire_client import WireClient


def address(client: WireClient) -> str:
    host, port = client._socket.getsockname()
    return f"{host}:{port}"


def test_the_last_clients_are_known_by_their_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_clients, "CLIENTS_MAX", 2)
    with Cluster(1, log_level="error") as cluster:
        clients = [WireClient(cluster) for _ in range(3)]
        for client in clients:
            client.ask(ApiVersionsRequest())
        assert cluster.clients == {address(client): "test" for client in clients[1:]}
        for client in clients:
            client.close()
