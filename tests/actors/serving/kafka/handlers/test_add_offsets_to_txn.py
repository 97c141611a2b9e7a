"""AddOffsetsToTxn at a broker that does not know of __consumer_offsets yet, which another one has just made."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from actors.cluster_file.facts import ClusterFacts, TopicWanted
from actors.control.client import ControllerClient
from actors.messages.controller import AwaitApplied, OperationAnswer
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC, Coordinate
from actors.runtime import Address, Future
from actors.serving.kafka.handlers import add_offsets_to_txn
from log.machines.metadata.plans import CreateTopic, Plan
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.log.machines.group.coordinator import new_world

CONTROLLER = Address("controller", "", 1)


class Broker:
    """With a connection on which there is one request, a controller that knows more, and a coordinator."""

    def __init__(self, *topics: str) -> None:
        self.world = new_world(**dict.fromkeys(topics, 1))
        self.answers: list[AddOffsetsToTxnResponse] = []
        self.coordinated: list[object] = []
        self.client_host = "/127.0.0.1"
        self.now = 0.0
        self.node = SimpleNamespace(scheduler=SimpleNamespace(clock=SimpleNamespace(now=lambda: self.now)))
        self.controller = ControllerClient(cast("Any", self), CONTROLLER)
        self._applied: list[Callable[[], None]] = []

    def begin(self) -> None:
        wanted = TopicWanted(GROUPS_TOPIC, 1, 1)
        facts = ClusterFacts((1,), (), "", 0, internal_topics=(wanted,))
        leadership = SimpleNamespace(of=lambda _group: None, led_since=lambda _group, _time: False)
        serving = SimpleNamespace(
            metadata=self.world.metadata, broker=1, controller=CONTROLLER, facts=facts, node=self.node,
            context=SimpleNamespace(leadership=leadership),
            replica=lambda _topic, number: Address("replica", str(number), 1),
        )  # fmt: skip
        call = SimpleNamespace(
            request=AddOffsetsToTxnRequest(transactional_id="t", group_id="g"),
            serving=serving,
            connection=self,
            version=3,
            head=SimpleNamespace(client_id="c"),
            answer=self.answers.append,
        )
        add_offsets_to_txn.handle(cast("Any", call))

    def ask(
        self, address: Address, message: object, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> None:
        future: Future[Any] = Future()
        if isinstance(message, Coordinate):
            assert self.world.metadata.topic(GROUPS_TOPIC) is not None, "the coordinator looks for it, too"
            self.coordinated.append(message.request)
            future.set(AddOffsetsToTxnResponse())
        else:
            assert address == CONTROLLER
            if isinstance(message, AwaitApplied):
                assert (message.offset, timeout) == (9, add_offsets_to_txn.SECONDS)
                self._applied.append(lambda: then(future))
                return
            future.set(OperationAnswer(Plan(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists").answer, 9))
        then(future)

    def apply(self) -> None:
        """This broker has applied what the controller knew, or the time is up."""
        (applied,), self._applied = self._applied, []
        applied()


def test_offsets_go_into_the_transaction_once_this_broker_knows_where_they_are() -> None:
    broker = Broker(TRANSACTIONS_TOPIC)
    broker.begin()
    assert (broker.coordinated, broker.answers) == ([], [])
    assert broker.world.ask(CreateTopic, GROUPS_TOPIC, assignment=((1,),)).error == ErrorCode.NONE
    broker.apply()
    assert len(broker.coordinated) == 1
    assert [one.error_code for one in broker.answers] == [ErrorCode.NONE]


def test_a_client_comes_again_if_this_broker_does_not_hear_where_they_are() -> None:
    broker = Broker(TRANSACTIONS_TOPIC)
    broker.begin()
    broker.apply()
    assert broker.coordinated == []
    assert [one.error_code for one in broker.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_nobody_waits_where_they_are_known() -> None:
    broker = Broker(TRANSACTIONS_TOPIC, GROUPS_TOPIC)
    broker.begin()
    assert [one.error_code for one in broker.answers] == [ErrorCode.NONE]
