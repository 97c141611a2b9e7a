"""The controller's process is killed in the middle of an operation, at every step of it: all of it comes about, once.

An operation is run undisturbed first, and its steps are counted: events from the request until its answer is there,
every broker knows the same, and has what it should have and nothing else. Then the same world is run again for each
step, with the broker that is the controller killed right after it and started again later. The operator goes on asking
with the same request id, elsewhere, as any client would.

The steps that `make test` takes are spread over all of them; `make test-long` takes every single one, in slices that
several processes can share (`-n 2`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from attrs import evolve, frozen

from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import AppendRecords, group_name, replica_address
from actors.runtime import Actor, Address, Future, Payload, handles
from log.machines.metadata.plans import (
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    MoveReplicas,
    Request,
)
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch, check_batches, records
from tools.simulator.clients.administrators import _AGAIN as RETRIABLE
from tools.simulator.cluster.failures import FailureWatch
from tools.simulator.cluster.settled import unsettled
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.layout import CLIENT_NODES, DATA, TOPIC
from tools.simulator.settings.seed import choose
from tools.simulator.world import World

BROKERS = 4
STEPS = 6
SLICES = 16
SECONDS_MAX = 30.0
ASK_SECONDS = 0.7
AGAIN_SECONDS = 0.05
AWAY_SECONDS = 0.3
VALUES = tuple(b"record %d" % number for number in range(6))
OTHER = "other"


@frozen(slots=True)
class _Ask:
    request: Request
    broker: int


class Operator(Actor):
    """Asks for one thing until it is answered for good."""

    restart = None

    def __init__(self) -> None:
        super().__init__()
        self.answer: dict[str, Any] | None = None
        self.refusals: list[str] = []

    @handles(_Ask)
    def operate(self, message: _Ask) -> None:
        self.answer = None

        def answered(future: Future[Any]) -> None:
            value = {"error": -1} if future.exception is not None else orjson.loads(future.get().answer)
            if future.exception is None and value["error"] not in RETRIABLE:
                self.answer = value
                return
            self.refusals.append(f"{future.exception or value}")
            self.after(AGAIN_SECONDS, _Ask(message.request, message.broker % BROKERS + 1))

        self.ask(Address("controller", "", message.broker), message.request, answered, timeout=ASK_SECONDS)


Making = Callable[[World, Operator], Request]
"""Gives what is to be asked for, in a world where that makes sense."""


def create(_world: World, _operator: Operator) -> Request:
    return CreateTopic("asked once", "made", 3, 3)


def delete(_world: World, _operator: Operator) -> Request:
    return DeleteTopic("asked once", OTHER)


def split(_world: World, _operator: Operator) -> Request:
    return CreatePartitions("asked once", OTHER, 3)


def move(world: World, _operator: Operator) -> Request:
    replicas = replicas_of(world, TOPIC, 0)
    (elsewhere,) = set(world.brokers) - set(replicas)
    return MoveReplicas("asked once", TOPIC, 0, (elsewhere, *replicas[1:]))


def cancel_a_move(world: World, operator: Operator) -> Request:
    """Of a move that has just been answered."""
    asked = move(world, operator)
    ask(world, operator, evolve(asked, request_id="to be cancelled"))
    until(world, lambda: operator.answer is not None, every_s=0.0)
    return MoveReplicas("asked once", TOPIC, 0, ())


def drain(_world: World, _operator: Operator) -> Request:
    return DrainBroker("asked once", 2, draining=True)


OPERATIONS: tuple[Making, ...] = (create, delete, split, move, cancel_a_move, drain)


def replicas_of(world: World, name: str, number: int) -> tuple[int, ...]:
    metadata = world.metadata()
    topic = None if metadata is None else metadata.topic(name)
    assert topic is not None
    return topic.partitions[number].replicas


@contextmanager
def a_world(
    *, fetch_bytes: int = 1000, leader_timeout_s: float = 1.5, brokers: int = BROKERS
) -> Iterator[tuple[World, Operator]]:
    """Some brokers, two topics with records, and somebody who may ask for something; nothing else goes on."""
    settings = choose(
        3, faults=(), brokers=brokers, replication_factor=3, partitions=2, admins=0, groups=(), transactions=False
    )
    raft = evolve(settings.raft, fetch_bytes=fetch_bytes, window_bytes=fetch_bytes, leader_timeout_s=leader_timeout_s)
    world = World(evolve(settings, writers=0, readers=0, raft=raft), TraceKeeper())
    watch, logger = FailureWatch(world), logging.getLogger("barnabas")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(watch)
    try:
        until(world, world.form)
        node = world.sim.nodes[CLIENT_NODES[0]]
        node.spawn(Operator, address=Address("operator", "", node.broker))
        actor = node.actor(Address("operator", "", node.broker))
        assert isinstance(actor, Operator)
        carry_out(world, actor, CreateTopic("first", OTHER, 1, 3))
        until(world, lambda: unsettled(world) is None)
        for name in (TOPIC, OTHER):
            write(world, name)
        actor.refusals.clear()
        yield world, actor
    finally:
        logger.removeHandler(watch)
        logger.setLevel(level)
        logger.propagate = propagate


def until(world: World, done: Callable[[], bool], *, every_s: float = 0.02) -> int:
    """Step until it is so, looking now and then. Gives the number of steps."""
    deadline, steps, look_at = world.now + SECONDS_MAX, 0, world.now
    while world.now < look_at or not done():
        if world.now >= look_at:
            look_at = world.now + every_s
        world.sim.step()
        steps += 1
        assert not world.history.violations, world.history.violations[0]
        assert world.now < deadline, unsettled(world)
    return steps


def ask(world: World, operator: Operator, request: Request, broker: int = 1) -> None:
    operator.answer = None
    world.sim.nodes[operator.address.broker].tell_local(operator.address, _Ask(request, broker))


def carry_out(world: World, operator: Operator, request: Request) -> dict[str, Any]:
    ask(world, operator, request)
    until(world, lambda: operator.answer is not None)
    assert operator.answer is not None
    return operator.answer


def write(world: World, name: str) -> None:
    """The records that must be there afterwards too, in partition 0."""
    metadata = world.metadata()
    topic = None if metadata is None else metadata.topic(name)
    assert topic is not None
    group = group_name(name, 0, topic.id)
    for value in VALUES:
        leader = world.leader(group)
        assert leader is not None
        batch = build_batch([Record(0, 1, None, value, ())])
        request = AppendRecords(-1, 1000, Payload(memoryview(batch)))
        world.sim.nodes[leader].tell_local(replica_address(group, leader), request)
    until(world, lambda: has_all(world, name))


def has_all(world: World, name: str) -> bool:
    """Does every broker that should keep them have the records?"""
    metadata = world.metadata()
    topic = None if metadata is None else metadata.topic(name)
    assert topic is not None
    group = group_name(name, 0, topic.id)
    return all(held(world, group, broker) == VALUES for broker in topic.partitions[0].replicas)


def held(world: World, group: str, broker: int) -> tuple[bytes, ...]:
    """The records that a replica has of what is committed."""
    replica = world.replica(group, broker)
    if replica is None:
        return ()
    log, values = replica.member.log, []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, up_to=replica.member.node.watermark).read():
        batches = check_batches(data)
        for position, header in zip(batches.positions, batches.headers, strict=True):
            if not header.is_control:
                values += [record.value or b"" for record in records(batches.data, position, limit=1 << 20)]
        offset = batches.headers[-1].next_offset
    return tuple(values)


def is_done(world: World, operator: Operator) -> bool:
    if operator.answer is None or len(world.living) < BROKERS or len(world.controllers()) < BROKERS:
        return False
    return unsettled(world) is None


def steps_of(making: Making) -> int:
    with a_world() as (world, operator):
        ask(world, operator, making(world, operator))
        steps = until(world, lambda: is_done(world, operator), every_s=0.0)
        assert operator.answer is not None
        assert operator.answer["error"] == ErrorCode.NONE
        assert operator.refusals == []
        return steps


def check_killed_after(making: Making, step: int) -> None:
    with a_world() as (world, operator), named(f"killed after step {step}"):
        before = replicas_of(world, TOPIC, 0)
        request = making(world, operator)
        ask(world, operator, request, step % BROKERS + 1)
        for _ in range(step):
            world.sim.step()
        controller = world.leader(METADATA)
        assert controller is not None
        world.kill(controller)
        world.sim.scheduler.timers.after(AWAY_SECONDS, lambda: world.start(controller))
        until(world, lambda: len(world.living) == BROKERS)
        until(world, lambda: operator.answer is not None)
        until(world, lambda: is_done(world, operator))
        check_all(world, operator, request, {TOPIC, OTHER}, before)


@contextmanager
def named(name: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise AssertionError(name) from error


def check_all(world: World, operator: Operator, request: Request, before: set[str], kept_by: tuple[int, ...]) -> None:
    """`kept_by` are those who had the topic's partition 0 before anything was asked for."""
    answer = operator.answer
    assert answer is not None
    assert answer["error"] == ErrorCode.NONE, f"{answer} after {operator.refusals}"
    metadata = world.metadata()
    assert metadata is not None
    names = sorted(topic.name for topic in metadata.topics.values())
    if isinstance(request, CreateTopic):
        before |= {request.name}
        topic = metadata.topic(request.name)
        assert topic is not None
        assert (topic.id, len(topic.partitions)) == (answer["topic_id"], request.partitions)
    elif isinstance(request, DeleteTopic):
        before -= {request.name}
    elif isinstance(request, CreatePartitions):
        topic = metadata.topic(request.name)
        assert topic is not None
        assert len(topic.partitions) == request.count
    elif isinstance(request, MoveReplicas):
        assert replicas_of(world, request.name, request.partition) == (request.replicas or kept_by)
    elif isinstance(request, DrainBroker):
        assert all(request.broker not in partition.replicas for _, _, partition in metadata.partitions())
    assert names == sorted(before), "a topic for each name, and no other"
    for broker in world.brokers:
        here = {
            group_name(topic.name, number, topic.id)
            for topic, number, partition in metadata.partitions()
            if broker in partition.replicas
        }
        kept = {name for name in world.brokers[broker].disk.list(DATA) if "-" in name and name != METADATA}
        assert kept == here, f"broker {broker} has other directories than it should have"
    kept_data = [topic.name for topic in metadata.topics.values() if topic.name in (TOPIC, OTHER)]
    until(world, lambda: all(has_all(world, name) for name in kept_data))
    once_more = carry_out(world, operator, request)
    assert once_more == answer, "asked again, it is answered alike and not done again"
    assert sorted(topic.name for topic in metadata.topics.values()) == names


@pytest.mark.parametrize("making", OPERATIONS)
def test_the_controller_is_killed_in_the_middle_of_an_operation(making: Making) -> None:
    steps = steps_of(making)
    assert steps > STEPS
    for number in range(STEPS):
        check_killed_after(making, number * steps // STEPS)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(SLICES))
@pytest.mark.parametrize("making", OPERATIONS)
def test_the_controller_is_killed_at_every_step_of_an_operation(making: Making, first: int) -> None:
    for step in range(first, steps_of(making) + 1, SLICES):
        check_killed_after(making, step)
