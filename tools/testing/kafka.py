"""What a test gets: a cluster as far as it is the test's own. Its topics are gone and its faults undone after the test.

    def test_orders(kafka):
        topic = kafka.topic(partitions=3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": kafka.client_id})
        kafka.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=2)

The fixture `kafka` shares its cluster with all tests of the session. So what stops a broker or moves its clock is
refused, and a request meets a fault only if it names a topic of this test or, where requests of its API name none, if
its client id is `kafka.client_id` (or that, a hyphen and more). `kafka_cluster_factory()` gives a test a cluster of its
own, on which everything here can be done. All calls block, for milliseconds, also in async tests.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.harness import Cluster
    from actors.harness.calendar_clock import ClusterClock
    from actors.harness.protocol_faults import Undoable

__tracebackhide__ = True  # a test is shown its own line, and what is wrong
_NAME_CHARACTERS_MAX = 80
_EACH_MAX = 1000


class KafkaFixtureError(Exception):
    """A test asked for what its cluster cannot do, or the cluster could not do it."""


def is_of(scope: str, name: str) -> bool:
    """Does this name of a topic or client belong to the test with this scope? A scope has one hyphen."""
    return name == scope or name.startswith(f"{scope}-")


class Backend(Protocol):
    """The way to a cluster. A topic or client belongs to a test if its name `is_of` the test's scope."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def cluster(self) -> Cluster | None:
        """The cluster, if it is the test's own."""

    @property
    def why_not(self) -> str:
        """Why the test cannot stop a broker of this cluster, and what to do."""

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None: ...

    def add_fault(self, scope: str, kind: str, api: str, options: dict[str, Any]) -> int:
        """Add a protocol fault. Gives a number, by which it is undone."""

    def undo_fault(self, number: int) -> None: ...

    def struck(self, number: int) -> int:
        """How many requests have met this fault."""

    def clients(self) -> dict[str, str]:
        """The client id by the client's `host:port`, as far as it is known."""

    def broker_log(self, since: float) -> list[str]: ...

    def leader_history(self, since: float) -> list[str]: ...

    def forget(self, topics: list[str], faults: list[int]) -> None:
        """Undo these faults, and delete those of these topics that still exist."""


class Fault:
    """A fault that a test asked for. It ends by itself after so many times, with `undo`, and with the test."""

    def __init__(self, backend: Backend, number: int) -> None:
        self._backend = backend
        self.number = number

    @property
    def struck(self) -> int:
        """How many requests have met it."""
        return self._backend.struck(self.number)

    def undo(self) -> None:
        """Let what is left of it not happen. A second call does nothing."""
        self._backend.undo_fault(self.number)


class Kafka:
    """A cluster, as one test sees it."""

    def __init__(self, backend: Backend, test: str, token: str) -> None:
        readable = re.sub(r"[^A-Za-z0-9]+", "_", test).strip("_")[:_NAME_CHARACTERS_MAX]
        self._backend = backend
        self._scope = f"{readable}-{token}"
        self._since = time.time()
        self._topics: list[str] = []
        self._faults: list[int] = []
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"<Kafka {self._scope} at {self.bootstrap}>"

    @property
    def bootstrap(self) -> str:
        """`host:port,…`, as `bootstrap.servers` of a client."""
        return self._backend.bootstrap

    @property
    def client_id(self) -> str:
        """A client id of this test, for clients whose requests are to meet faults."""
        return self._scope

    @property
    def group_id(self) -> str:
        """A name that no other test has, for a consumer group or a transactional id."""
        return self._scope

    # -- topics ----------------------------------------------------------------------------------------------------

    def topic(
        self,
        name: str = "",
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic for this test, whose partitions are led. Gives its full name, which no other test has.

        −1 is the cluster's default. `config` has Kafka's names: {"cleanup.policy": "compact"}.
        """
        if len(self._topics) >= _EACH_MAX:
            raise KafkaFixtureError(f"topic: this test has {_EACH_MAX} topics; a test may have no more")
        number = next(self._numbers)
        full_name = f"{self._scope}-{name or number}"
        configs = {key: _spelled(value) for key, value in (config or {}).items()}
        self._backend.create_topic(full_name, partitions, replication_factor, configs)
        self._topics.append(full_name)
        return full_name

    # -- protocol faults -------------------------------------------------------------------------------------------

    def fail_next(
        self, api: str, *, error: str, times: int | None = 1, topic: str | None = None, client_id: str | None = None
    ) -> Fault:
        """Refuse the next requests of this API, such as "Produce", with Kafka's error. `times=None`: until `undo`."""
        return self._fault("fail_next", api, {"error": error, "times": times, "topic": topic, "client_id": client_id})

    def delay(
        self, api: str, *, seconds: float, times: int | None = 1, topic: str | None = None, client_id: str | None = None
    ) -> Fault:
        """Hold back the answers to the next requests of this API."""
        return self._fault("delay", api, {"seconds": seconds, "times": times, "topic": topic, "client_id": client_id})

    def drop_connection(
        self, api: str, *, times: int | None = 1, topic: str | None = None, client_id: str | None = None
    ) -> Fault:
        """Close the connection of the next requests of this API, in place of an answer."""
        return self._fault("drop_connection", api, {"times": times, "topic": topic, "client_id": client_id})

    def _fault(self, kind: str, api: str, options: dict[str, Any]) -> Fault:
        if len(self._faults) >= _EACH_MAX:
            raise KafkaFixtureError(f"{kind}: this test has {_EACH_MAX} faults; a test may have no more")
        number = self._backend.add_fault(self._scope, kind, api, options)
        self._faults.append(number)
        return Fault(self._backend, number)

    # -- faults of a cluster of the test's own -----------------------------------------------------------------------

    def own(self, what: str) -> Cluster:
        """The cluster, if this is the test's own; else KafkaFixtureError, which says that `what` cannot be done."""
        cluster = self._backend.cluster
        if cluster is None:
            raise KafkaFixtureError(f"{what}: {self._backend.why_not}")
        return cluster

    @property
    def cluster(self) -> Cluster:
        """The cluster itself, of the test's own, with all that it can do."""
        return self.own("cluster")

    def kill(self, broker: int) -> None:
        """Kill a broker as `kill -9` does."""
        self.own("kill").kill(broker)

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the broker that leads this partition. Gives its id."""
        return self.own("kill_leader").kill_leader(topic, partition)

    def restart(self, broker: int) -> None:
        """Start a dead broker again."""
        self.own("restart").restart(broker)

    def pause(self, broker: int) -> None:
        """Stop a broker without ending it, as SIGSTOP does."""
        self.own("pause").pause(broker)

    def resume(self, broker: int) -> None:
        """Let a broker that was paused go on."""
        self.own("resume").resume(broker)

    def cut(self, a: int, b: int) -> None:
        """Break the link between two brokers."""
        self.own("cut").cut(a, b)

    def heal(self) -> None:
        """Mend all broken links."""
        self.own("heal").heal()

    def fill_disk(self, broker: int) -> Undoable:
        """Let a broker's disk be full, until `undo`."""
        return self.own("fill_disk").fill_disk(broker)

    def slow_disk(self, broker: int, ms: float) -> Undoable:
        """Let each write and each sync of a broker's disk take so much longer, until `undo`."""
        return self.own("slow_disk").slow_disk(broker, ms)

    def expire(self, group: str, member: str) -> None:
        """End the session of one member of a consumer group: a member id, or a client id that only one member has."""
        self.own("expire").expire(group, member)

    @property
    def clock(self) -> ClusterClock:
        """The calendar: `clock.advance(hours=25)`. Connections and elections stay on real time."""
        return self.own("clock").clock

    # -- what happened -----------------------------------------------------------------------------------------------

    def broker_log(self) -> list[str]:
        """The last lines that the brokers have logged since the test began."""
        return self._backend.broker_log(self._since)

    def leader_history(self) -> list[str]:
        """Which broker began to lead which partition since the test began."""
        return self._backend.leader_history(self._since)

    def clients(self) -> dict[str, str]:
        """The client ids of the last connections by the client's `host:port`, as far as they are known."""
        return self._backend.clients()

    def forget(self) -> None:
        """Delete the topics of this test and undo its faults."""
        topics, faults = self._topics, self._faults
        self._topics, self._faults = [], []
        if topics or faults:
            self._backend.forget(topics, faults)


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class KafkaClusterFactory(Protocol):
    """Starts clusters of the test's own, which end with the test."""

    def __call__(
        self, brokers: int | None = None, *, config: Mapping[str, object] | None = None, **options: Any
    ) -> Kafka:
        """Start a cluster. `config` has Kafka's names, and adds to the command line and the ini file."""
