"""Administration of groups: their members and committed offsets, and how to change them. Reached as `Admin.groups`.

    with Admin("127.0.0.1:9092") as admin:
        for group in admin.groups.list():
            print(group.group_id, group.state, admin.groups.offsets(group.group_id))

Every request goes to the group's coordinator, and is retried when the coordinator has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from log.machines.group.classic.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Api,
)
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages import consumer_group_describe, describe_groups
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tools.client.administration.questions import Questions
from tools.client.errors import KafkaError, NotSupported, check
from tools.client.group_offsets import (
    NAMES_VERSION,
    Committed,
    commit_errors,
    commit_request,
    fetch_request,
    fetch_told,
)
from tools.client.membership.member import Identity, by_topic
from tools.client.metadata import TopicPartition
from tools.client.network.coordinator import GROUP

Where = tuple[str, int]
DEAD = "Dead"
_FILTERS_VERSION, _TYPES_VERSION = 4, 5  # of ListGroups


@frozen
class ListedGroup:
    """`state` and `type` are empty where the broker's version of ListGroups has no such field."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@frozen
class DescribedMember:
    """A member and its partitions. `epoch` is −1 in classic groups."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    epoch: int = -1


@frozen
class DescribedGroup:
    """A group and its members. `epoch` is −1 for classic groups, whose generation DescribeGroups does not contain."""

    group_id: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[DescribedMember, ...]
    epoch: int = -1


class Groups(Questions):
    """Every method waits for its answer, for at most the admin's `seconds`."""

    def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """All groups of all brokers by name; or only groups in these states, of these types."""
        wanted_states, wanted_types = list(states), list(types)

        def message(version: int) -> ListGroupsRequest:
            if version < _FILTERS_VERSION:
                return ListGroupsRequest()
            if version < _TYPES_VERSION:
                return ListGroupsRequest(states_filter=wanted_states)
            return ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)

        def attempt() -> list[ListedGroup]:
            listed: dict[str, ListedGroup] = {}
            for broker in self._cluster.refreshed(self._seconds).brokers:
                response: ListGroupsResponse = self._call(LIST_GROUPS, message, broker)
                check(response.error_code, f"the groups of broker {broker}")
                for one in response.groups:
                    listed[one.group_id] = ListedGroup(
                        one.group_id, one.protocol_type, one.group_state, one.group_type.lower()
                    )
            return [listed[name] for name in sorted(listed)]

        return self._persist(attempt)

    def describe(self, group_id: str) -> DescribedGroup:
        """State and members of a group of either type. An unknown group is refused with GROUP_ID_NOT_FOUND."""

        def attempt() -> DescribedGroup:
            coordinator = self._find(group_id, GROUP)
            try:
                return self._describe_consumer_group(group_id, coordinator)
            except NotSupported:
                return self._describe_classic_group(group_id, coordinator)
            except KafkaError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                return self._describe_classic_group(group_id, coordinator)

        return self._persist(attempt)

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets. A group that has members is refused with NON_EMPTY_GROUP."""

        def attempt() -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response: DeleteGroupsResponse = self._ask(group_id, DELETE_GROUPS, request)
            for one in response.results:
                check(one.error_code, f"group {group_id}")

        self._persist(attempt)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def offsets(self, group_id: str, *, stable: bool = False) -> dict[TopicPartition, Committed]:
        """The group's committed offsets. `stable`: wait for open transactions that may change them."""

        def attempt() -> dict[TopicPartition, Committed]:
            request = fetch_request(self._cluster.view, group_id, Identity(), None, stable=stable)
            response = self._ask(group_id, OFFSET_FETCH, request, NAMES_VERSION)
            told = fetch_told(self._cluster.view, response, ())
            for one in told.values():
                if isinstance(one, KafkaError):
                    raise one
            return {where: one for where, one in sorted(told.items()) if isinstance(one, Committed)}

        return self._persist(attempt)

    def alter_offsets(self, group_id: str, offsets: Mapping[Where, int | Committed]) -> None:
        """Set the group's committed offsets. Refused with UNKNOWN_MEMBER_ID while it has members."""
        wanted = {
            TopicPartition(*where): one if isinstance(one, Committed) else Committed(one)
            for where, one in offsets.items()
        }

        def attempt() -> None:
            request = commit_request(self._cluster.view, group_id, Identity(), wanted)
            response = self._ask(group_id, OFFSET_COMMIT, request, NAMES_VERSION)
            for error in commit_errors(self._cluster.view, response, wanted).values():
                raise error

        self._persist(attempt)

    def delete_offsets(self, group_id: str, wheres: Iterable[Where]) -> None:
        """Delete committed offsets. Refused with GROUP_SUBSCRIBED_TO_TOPIC while a member reads the topic."""
        grouped = by_topic(TopicPartition(*where) for where in wheres)
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
                )
                for topic, numbers in grouped.items()
            ],
        )

        def attempt() -> None:
            response: OffsetDeleteResponse = self._ask(group_id, OFFSET_DELETE, request)
            check(response.error_code, f"group {group_id}")
            for topic in response.topics:
                for one in topic.partitions:
                    check(one.error_code, f"the offset of {topic.name}-{one.partition_index}")

        self._persist(attempt)

    # -- members -----------------------------------------------------------------------------------------------------

    def remove_members(
        self, group_id: str, *, member_ids: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> None:
        """Remove these members from the group. A member that is still running joins again."""
        members = [MemberIdentity(member_id=one, reason="removed by an administrator") for one in member_ids]
        members += [MemberIdentity(group_instance_id=one, reason="removed by an administrator") for one in instance_ids]
        request = LeaveGroupRequest(group_id=group_id, members=members)

        def attempt() -> None:
            response: LeaveGroupResponse = self._ask(group_id, LEAVE_GROUP, request)
            check(response.error_code, f"group {group_id}")
            for one in response.members:
                check(one.error_code, f"member {one.group_instance_id or one.member_id} of group {group_id}")

        self._persist(attempt)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _describe_consumer_group(self, group_id: str, coordinator: int) -> DescribedGroup:
        request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group_id])
        response: consumer_group_describe.ConsumerGroupDescribeResponse = self._call(
            CONSUMER_GROUP_DESCRIBE, request, coordinator
        )
        (told,) = response.groups
        check(told.error_code, f"group {group_id}", told.error_message)
        members = tuple(
            DescribedMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                tuple(
                    TopicPartition(topic.topic_name, number)
                    for topic in one.assignment.topic_partitions
                    for number in topic.partitions
                ),
                tuple(one.subscribed_topic_names),
                one.subscribed_topic_regex or None,
                one.member_epoch,
            )
            for one in told.members
        )
        return DescribedGroup(
            group_id, "consumer", told.group_state, told.assignor_name, coordinator, members, told.group_epoch
        )

    def _describe_classic_group(self, group_id: str, coordinator: int) -> DescribedGroup:
        request = describe_groups.DescribeGroupsRequest(groups=[group_id])
        response: describe_groups.DescribeGroupsResponse = self._call(DESCRIBE_GROUPS, request, coordinator)
        (told,) = response.groups
        check(told.error_code, f"group {group_id}", told.error_message)
        if told.group_state == DEAD:  # the answer of older brokers for an unknown group
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
        members = tuple(_classic_member(told.protocol_type, one) for one in told.members)
        return DescribedGroup(group_id, "classic", told.group_state, told.protocol_data, coordinator, members)

    def _ask(self, group_id: str, api: Api, message: Any, version_max: int | None = None) -> Any:
        return self._call(api, message, self._find(group_id, GROUP), version_max)


def _classic_member(protocol_type: str, told: describe_groups.DescribedGroupMember) -> DescribedMember:
    """A member; its partitions and topics are only known if it is a consumer."""
    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        try:
            partitions = tuple(
                TopicPartition(one.topic, number)
                for one in decode_assignment(told.member_assignment).assigned_partitions
                for number in one.partitions
            )
            topics = tuple(decode_subscription(told.member_metadata).topics) if told.member_metadata else ()
        except ProtocolError:  # the member's client uses another format
            partitions, topics = (), ()
    return DescribedMember(told.member_id, told.group_instance_id, told.client_id, told.client_host, partitions, topics)
