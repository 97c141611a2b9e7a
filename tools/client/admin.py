"""Administration: topics, configs, records, leaders, moves, groups and transactions, of any Kafka cluster.

    with Admin("127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=6, replication_factor=3, configs={"retention.ms": "86400000"})
        admin.describe_topic("orders").partitions[0].leader

A refused request raises a KafkaError with Kafka's name and the broker's message. A request that fails for the
moment (there is no controller, for example) is retried until the time is over. The cluster may then have executed it
twice: creating a topic can end with TOPIC_ALREADY_EXISTS although this client created it, as with Kafka's own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from attrs import frozen

from protocol.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    Api,
)
from protocol.error_codes import ErrorCode
from protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_records,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
)
from protocol.messages.delete_records import DeleteRecordsPartitionResult
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tools.client.addresses import Address
from tools.client.administration.brokers import BrokerQuestions
from tools.client.administration.groups import Groups
from tools.client.administration.transactions import TransactionAdmin
from tools.client.errors import KafkaError, NotSupported, check
from tools.client.metadata import Topic, TopicPartition, View
from tools.client.network.broker import Patience
from tools.client.network.cluster import Bootstrap, Cluster
from tools.client.offsets import LATEST, OffsetAt, list_offsets

T = TypeVar("T")
Where = tuple[str, int]
TOPIC, BROKER = 2, 4
"""The resource types of configs."""
_SET, _DELETE = 0, 1
_BY_NAME = 5  # the last version of DeleteTopics that names topics
_HIGH_WATERMARK = -1


@frozen
class ClusterDescription:
    cluster_id: str
    controller: int | None
    brokers: dict[int, Address]


@frozen
class Config:
    """A config's value. `source` is 1 for a topic's own, 5 for Kafka's default; others are a broker's."""

    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source == 5


@frozen
class Reassignment:
    """A reassignment of a partition that has not ended."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Admin:
    """Every method blocks until its answer is there, for at most `seconds`."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        seconds: float = 30.0,
        client_id: str = "barnabas-admin",
        patience: Patience | None = None,
    ) -> None:
        self._seconds = seconds
        self._cluster = Cluster(bootstrap, client_id=client_id, patience=patience)
        self.groups = Groups(self._cluster, seconds)
        self.transactions = TransactionAdmin(self._cluster, seconds)
        self.brokers = BrokerQuestions(self._cluster, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    # -- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Sequence[Sequence[int]] = (),
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """−1 is the cluster's default. An assignment names the brokers of each partition and replaces both numbers."""
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=-1 if assignment else partitions,
            replication_factor=-1 if assignment else replication_factor,
            assignments=[
                create_topics.CreatableReplicaAssignment(partition_index=at, broker_ids=list(brokers))
                for at, brokers in enumerate(assignment)
            ],
            configs=[
                create_topics.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
            ],
        )
        request = create_topics.CreateTopicsRequest(
            topics=[topic], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        self._change(CREATE_TOPICS, request, f"topic {name}", lambda response: response.topics, final=None)

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=self._timeout_ms)

        self._change(DELETE_TOPICS, request, f"topic {name}", lambda response: response.responses, _BY_NAME)

    def create_partitions(
        self, topic: str, count: int, *, assignment: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Raise the number of partitions to `count`. An assignment names the brokers of each new partition."""
        wanted = create_partitions.CreatePartitionsTopic(
            name=topic,
            count=count,
            assignments=None
            if assignment is None
            else [create_partitions.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignment],
        )
        request = create_partitions.CreatePartitionsRequest(
            topics=[wanted], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        self._change(CREATE_PARTITIONS, request, f"topic {topic}", lambda response: response.results)

    def list_topics(self) -> dict[str, Topic]:
        return dict(self._metadata(None).topics)

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe those of these topics that exist."""
        return dict(self._metadata(sorted(names)).topics)

    def describe_topic(self, name: str) -> Topic:
        def attempt() -> Topic:
            view = self._metadata([name])
            check(view.errors.get(name, 0), f"topic {name}")
            return view.topics[name]

        return self._persist(attempt, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def describe_cluster(self) -> ClusterDescription:
        """The brokers and the controller. From brokers before Kafka 2.8, which lack DescribeCluster, by Metadata."""

        def attempt() -> ClusterDescription:
            try:
                response: DescribeClusterResponse = self._ask_quickly(DESCRIBE_CLUSTER, DescribeClusterRequest())
            except NotSupported:
                view = self._cluster.refreshed(self._seconds)
                return ClusterDescription(view.cluster_id or "", view.controller, dict(view.brokers))
            check(response.error_code, "the cluster", response.error_message)
            return ClusterDescription(
                response.cluster_id,
                response.controller_id if response.controller_id >= 0 else None,
                {one.broker_id: (one.host, one.port) for one in response.brokers},
            )

        return self._persist(attempt)

    # -- configs -----------------------------------------------------------------------------------------------------

    def describe_configs(self, topic: str) -> dict[str, Config]:
        """All configs of a topic, with the defaults."""
        return self._describe_configs(TOPIC, topic, None)

    def describe_broker_configs(self, broker: int) -> dict[str, Config]:
        return self._describe_configs(BROKER, str(broker), broker)

    def alter_configs(self, topic: str, configs: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set these configs of a topic; None resets one to its default. All others stay."""
        request = _altering(TOPIC, topic, configs, validate_only=validate_only)

        self._change(INCREMENTAL_ALTER_CONFIGS, request, f"the configs of {topic}", lambda response: response.responses)

    def alter_broker_configs(
        self, broker: int | None, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """The same for a broker, which is asked itself; None is the default of all brokers."""
        request = _altering(BROKER, "" if broker is None else str(broker), configs, validate_only=validate_only)
        what = "the configs of all brokers" if broker is None else f"the configs of broker {broker}"

        def attempt() -> None:
            self._known()
            for result in self._ask(INCREMENTAL_ALTER_CONFIGS, request, broker).responses:
                check(result.error_code, what, result.error_message)

        self._persist(attempt)

    def _describe_configs(self, kind: int, name: str, broker: int | None) -> dict[str, Config]:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(resources=[resource])

        def attempt() -> dict[str, Config]:
            if broker is not None:
                self._known()
            response: describe_configs.DescribeConfigsResponse = self._ask(DESCRIBE_CONFIGS, request, broker)
            (told,) = response.results
            check(told.error_code, f"the configs of {name}", told.error_message)
            return {
                one.name: Config(one.value, one.config_source, one.read_only, one.is_sensitive) for one in told.configs
            }

        return self._persist(attempt, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # -- records -----------------------------------------------------------------------------------------------------

    def list_offsets(self, times: Mapping[Where, int], *, committed: bool = False) -> dict[TopicPartition, OffsetAt]:
        """Offsets by time: in milliseconds, or EARLIEST, LATEST, MAX_TIMESTAMP. See OffsetAt."""
        wanted = {TopicPartition(*where): time for where, time in times.items()}
        return list_offsets(self._cluster, wanted, committed=committed, seconds=self._seconds)

    def delete_records(self, before: Mapping[Where, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (LATEST: all records). Returns the new log start offsets."""
        left = {TopicPartition(*where): offset for where, offset in before.items()}
        begins: dict[TopicPartition, int] = {}
        for topic in {where.topic for where in left}:
            self._cluster.topic(topic, self._seconds)

        def attempt() -> dict[TopicPartition, int]:
            for leader, wheres in self._cluster.by_leader(left, "records of").items():
                for where, told in self._delete_records(leader, {where: left[where] for where in wheres}).items():
                    check(told.error_code, f"records of {where}")
                    begins[where] = told.low_watermark
                    del left[where]
            return begins

        return self._persist(attempt)

    def _delete_records(
        self, leader: int, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
        topics = [
            delete_records.DeleteRecordsTopic(
                name=name,
                partitions=[
                    delete_records.DeleteRecordsPartition(
                        partition_index=number, offset=_HIGH_WATERMARK if offset == LATEST else offset
                    )
                    for number, offset in offsets.items()
                ],
            )
            for name, offsets in _by_topic(asked).items()
        ]
        request = delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=self._timeout_ms)
        response: delete_records.DeleteRecordsResponse = self._ask(DELETE_RECORDS, request, leader)
        return {
            TopicPartition(topic.name, one.partition_index): one
            for topic in response.topics
            for one in topic.partitions
        }

    # -- leaders and moves -------------------------------------------------------------------------------------------

    def elect_leaders(
        self, wheres: Iterable[Where] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred replicas of these partitions, or of all. Returns the error of each, or None.

        ELECTION_NOT_NEEDED is no error: the preferred replica is the leader already.
        """
        topics = None
        if wheres is not None:
            grouped = _by_topic(dict.fromkeys((TopicPartition(*where) for where in wheres), 0))
            topics = [
                elect_leaders.TopicPartitions(topic=name, partitions=list(some)) for name, some in grouped.items()
            ]
        request = elect_leaders.ElectLeadersRequest(
            election_type=int(unclean), topic_partitions=topics, timeout_ms=self._timeout_ms
        )

        def attempt() -> dict[TopicPartition, KafkaError | None]:
            response: elect_leaders.ElectLeadersResponse = self._ask_controller(ELECT_LEADERS, request)
            check(response.error_code, "an election")
            told: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.replica_election_results:
                for one in topic.partition_result:
                    where = TopicPartition(topic.topic, one.partition_id)
                    needed = one.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
                    told[where] = KafkaError(one.error_code, str(where), one.error_message) if needed else None
            return told

        return self._persist(attempt)

    def reassign(self, replicas: Mapping[Where, Sequence[int] | None]) -> None:
        """Move partitions to these brokers, the preferred leader first; None cancels a move."""
        wanted = {TopicPartition(*where): brokers for where, brokers in replicas.items()}
        topics = [
            alter_partition_reassignments.ReassignableTopic(
                name=name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartition(
                        partition_index=number, replicas=None if brokers is None else list(brokers)
                    )
                    for number, brokers in some.items()
                ],
            )
            for name, some in _by_topic(wanted).items()
        ]
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=topics
        )

        def attempt() -> None:
            response: alter_partition_reassignments.AlterPartitionReassignmentsResponse = self._ask_controller(
                ALTER_PARTITION_REASSIGNMENTS, request
            )
            check(response.error_code, "a move", response.error_message)
            for topic in response.responses:
                for one in topic.partitions:
                    check(one.error_code, f"a move of {topic.name}-{one.partition_index}", one.error_message)

        self._persist(attempt, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The reassignments that have not ended."""
        request = list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms)

        def attempt() -> dict[TopicPartition, Reassignment]:
            response: list_partition_reassignments.ListPartitionReassignmentsResponse = self._ask_controller(
                LIST_PARTITION_REASSIGNMENTS, request
            )
            check(response.error_code, "the moves", response.error_message)
            return {
                TopicPartition(topic.name, one.partition_index): Reassignment(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in response.topics
                for one in topic.partitions
            }

        return self._persist(attempt)

    # -- requests ----------------------------------------------------------------------------------------------------

    @property
    def _timeout_ms(self) -> int:
        return int(self._seconds * 1000)

    def _known(self) -> View:
        view = self._cluster.view
        return view if view.brokers else self._cluster.refreshed(self._seconds)

    def _metadata(self, topics: Sequence[str] | None) -> View:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response: MetadataResponse = self._persist(lambda: self._ask_quickly(METADATA, request))
        check(response.error_code, "metadata")
        return View().updated(response)

    def _ask(self, api: Api, request: object, broker: int | None = None, version_max: int | None = None) -> Any:
        return self._cluster.call(api, request, broker=broker, seconds=self._seconds, version_max=version_max)

    def _ask_quickly(self, api: Api, request: object) -> Any:
        """Ask any broker what it answers at once; if this one is silent, another may answer before the time is over."""
        seconds = min(self._seconds, self._cluster.patience.request)
        return self._cluster.call(api, request, seconds=seconds)

    def _ask_controller(self, api: Api, request: object, version_max: int | None = None) -> Any:
        """Ask the broker that Metadata names as the controller; in a new cluster any broker, which forwards it."""
        return self._ask(api, request, self._known().controller, version_max)

    def _change(
        self,
        api: Api,
        request: object,
        what: str,
        results: Callable[[Any], Iterable[Any]],
        version_max: int | None = None,
        *,
        final: ErrorCode | None = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> None:
        """Send a change to the controller. Each of its results has an error code."""

        def attempt() -> None:
            for result in results(self._ask_controller(api, request, version_max)):
                check(result.error_code, what, result.error_message)

        self._persist(attempt, final)

    def _persist(self, attempt: Callable[[], T], final: ErrorCode | None = None) -> T:
        """Retry until the attempt succeeds, is refused, or is late. `final` is an error that is not retried."""
        return self._cluster.persist(attempt, self._seconds, final)


def _altering(
    kind: int, name: str, configs: Mapping[str, str | None], *, validate_only: bool
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    changes = [
        incremental_alter_configs.AlterableConfig(
            name=config, config_operation=_DELETE if value is None else _SET, value=value
        )
        for config, value in configs.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def _by_topic(wanted: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    grouped: dict[str, dict[int, T]] = {}
    for where, value in wanted.items():
        grouped.setdefault(where.topic, {})[where.partition] = value
    return grouped
