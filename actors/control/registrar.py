"""What the cluster file asks for and the metadata does not have yet: this broker's registration, and the file's topics.

A topic that exists with other numbers than in the file is kept as it is, with a warning. A missing topic whose creation
in this launch is on record has been deleted, and is not created again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from log.machines.metadata.plans import CreateTopic, RegisterBroker

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.cluster_file.facts import ClusterFacts, TopicWanted
    from log.machines.metadata.metadata import Metadata


class Registrar:
    """The registrar of one broker."""

    def __init__(
        self, cluster: ClusterFacts, metadata: Metadata, broker: int, directory_id: str, warn: Callable[..., None]
    ) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._broker = broker
        self._directory_id = directory_id
        self._warn = warn
        self._complained: set[str] = set()

    @property
    def is_registered(self) -> bool:
        """Does the metadata have this broker as it is now?"""
        known, cluster = self._metadata.brokers.get(self._broker), self._cluster
        mine = (self._directory_id, cluster.host, cluster.port)
        return known is not None and (known.directory, known.host, known.port) == mine

    @property
    def registration(self) -> RegisterBroker:
        return RegisterBroker("", self._broker, self._directory_id, self._cluster.host, self._cluster.port)

    @property
    def are_all_registered(self) -> bool:
        """Is every broker of the cluster file registered? Topics are created from then on."""
        return all(broker in self._metadata.brokers for broker in self._cluster.brokers)

    @property
    def lacks_topics(self) -> bool:
        return bool(self._missing_topics())

    def topics_to_create(self, waiting: set[str]) -> list[CreateTopic]:
        """The creation of each missing topic that does not wait already. Small replication factors go first."""
        return [
            CreateTopic(self._id_of_making(topic), topic.name, topic.partitions, topic.replication_factor)
            for topic in sorted(self._missing_topics(), key=lambda topic: topic.replication_factor)
            if topic.name not in waiting
        ]

    def complain_of_others(self) -> None:
        """Warn once of each topic that has other numbers than in the file."""
        for topic in self._cluster.topics:
            known = self._metadata.topic(topic.name)
            if known is None or topic.name in self._complained:
                continue
            self._complained.add(topic.name)
            factors = sorted({len(partition.replicas) for partition in known.partitions})
            if len(known.partitions) != topic.partitions or factors != [topic.replication_factor]:
                self._warn(
                    "controller: topic %r has %d partitions with %s replicas and keeps them; the file says %d and %d",
                    topic.name, len(known.partitions), "/".join(map(str, factors)), topic.partitions,
                    topic.replication_factor,
                )  # fmt: skip

    def _missing_topics(self) -> list[TopicWanted]:
        metadata = self._metadata
        return [
            topic
            for topic in self._cluster.topics
            if metadata.topic(topic.name) is None and metadata.answer_to(self._id_of_making(topic)) is None
        ]

    def _id_of_making(self, topic: TopicWanted) -> str:
        return f"cluster.toml {self._cluster.launch} {topic.name}"
