"""Barnabas, a Kafka-compatible message broker.

    from barnabas import Cluster, Producer

    with Cluster(brokers=3) as cluster, Producer(cluster.bootstrap) as producer:
        producer.send("orders", b"table 4: two cups")

Cluster is a cluster inside a test or a script: real brokers on real ports, and faults. Producer, Consumer and Admin
work with any Kafka cluster. Each is imported when it is used first; `import barnabas` alone imports nothing.

pytest_plugin  fixtures for tests, which pytest finds by itself
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.harness import Cluster
    from tools.client.admin import Admin
    from tools.client.consumer import Consumer
    from tools.client.producer import Producer

__all__ = ["Admin", "Cluster", "Consumer", "Producer"]


if not TYPE_CHECKING:  # type checkers know the names, and would take any other for one of these

    def __getattr__(name: str) -> type:
        match name:
            case "Admin":
                from tools.client.admin import Admin

                return Admin
            case "Cluster":
                from actors.harness import Cluster

                return Cluster
            case "Consumer":
                from tools.client.consumer import Consumer

                return Consumer
            case "Producer":
                from tools.client.producer import Producer

                return Producer
            case _:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
