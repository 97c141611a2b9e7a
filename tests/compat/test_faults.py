"""Brokers that die and come back under clients that are at work, and brokers that are not where they listen."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from actors.harness import Cluster
from tests.actors.topics import leader_of
from tests.compat.client import Client, Message, read, read_until
from tests.compat.conftest import CLIENTS, CONFIG, Topics
from tests.compat.forwarder import Forwarder

pytestmark = pytest.mark.slow
RECORDS = 1500


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_killed_leader_loses_nothing(client: Client, idempotent: bool, victims: Cluster, make_topic: Topics) -> None:
    place = (make_topic(victims), 0)
    killed = leader_of(victims, place[0])
    seen: list[Message] = []
    with (
        client.producer(victims.bootstrap, idempotent=idempotent, batch_bytes=500) as producer,
        client.consumer(victims.bootstrap, place) as consumer,
    ):
        deliveries = [producer.send(place, b"%d" % number) for number in range(RECORDS // 3)]
        deliveries[10].offset()
        read_until(consumer, seen, lambda: len(seen) > 10)
        for number in range(RECORDS // 3, RECORDS):
            if number == RECORDS // 2:
                victims.kill(killed)
            deliveries.append(producer.send(place, b"%d" % number))
        producer.flush()
        offsets = [delivery.offset() for delivery in deliveries]
        read_until(consumer, seen, lambda: any(message.value == b"%d" % (RECORDS - 1) for message in seen))
    values = [int(message.value or b"") for message in seen]
    assert sorted(set(values)) == list(range(RECORDS)), "something was lost"
    held = {message.offset: value for message, value in zip(seen, values, strict=True)}
    assert len(held) == len(seen), "an offset was given twice"
    if idempotent:
        assert values == list(range(RECORDS)), "not in order, or twice"
        assert [held[offset] for offset in offsets if offset is not None] == values, "not where it was said to be"


class AtWork:
    """A client with a producer and a consumer, and what it has written."""

    def __init__(self, kind: type[Client], cluster: Cluster, topic: str, stack: ExitStack) -> None:
        self.client = kind()
        self.places = [(topic, partition) for partition in range(3)]
        self.written: list[bytes] = []
        self._producer = stack.enter_context(self.client.producer(cluster.bootstrap, idempotent=True))
        self._consumer = stack.enter_context(self.client.consumer(cluster.bootstrap, *self.places))
        self._sent: list[bytes] = []

    def send(self, what: str) -> None:
        self._sent = [f"{what} {number}".encode() for number in range(30)]
        for number, value in enumerate(self._sent):
            self._producer.send(self.places[number % 3], value)

    def read(self) -> None:
        self._producer.flush()
        assert {message.value for message in read(self._consumer, len(self._sent))} == set(self._sent), self.client
        self.written += self._sent


@pytest.mark.timeout(300)
def test_clients_go_on_while_every_broker_is_restarted(victims: Cluster, make_topic: Topics) -> None:
    """All of them at once: they do not know of each other."""
    with ExitStack() as stack:
        everybody = [AtWork(kind, victims, make_topic(victims, 3), stack) for kind in CLIENTS.values()]

        def write_and_read(what: str) -> None:
            for one in everybody:
                one.send(what)
            for one in everybody:
                one.read()

        write_and_read("at first")
        for broker in victims.brokers:
            victims.end(broker)
            write_and_read(f"without {broker}")
            victims.restart(broker)
            write_and_read(f"with {broker} again")
    for one in everybody:
        with one.client.consumer(victims.bootstrap, *one.places) as consumer:
            found = read(consumer, len(one.written))
        assert sorted(message.value or b"" for message in found) == sorted(one.written), one.client


def test_through_forwarders_that_are_advertised(make_topic: Topics, leaves_no_process: None) -> None:
    with ExitStack() as stack:
        forwarders = {broker: stack.enter_context(Forwarder()) for broker in (1, 2, 3)}
        advertised = {broker: forwarder.address for broker, forwarder in forwarders.items()}
        cluster = stack.enter_context(Cluster(3, processes=True, config=CONFIG, advertised=advertised))
        for forwarder, address in zip(forwarders.values(), cluster.bootstrap.split(","), strict=True):
            host, _, port = address.partition(":")
            forwarder.target = (host, int(port))
        bootstrap = "{}:{}".format(*forwarders[1].address)
        for kind in CLIENTS.values():
            client = kind()
            topic = make_topic(cluster, 3)
            places = [(topic, partition) for partition in range(3)]
            leaders = {leader_of(cluster, *place) for place in places}
            before = {broker: forwarder.bytes for broker, forwarder in forwarders.items()}
            with client.admin(bootstrap) as admin:
                assert admin.brokers() == advertised
            with client.producer(bootstrap) as producer, client.consumer(bootstrap, *places) as consumer:
                for place in places:
                    producer.send(place, bytes(1000))
                producer.flush()
                read(consumer, 3)
            for broker in leaders:
                assert forwarders[broker].bytes >= before[broker] + 2000, "it came another way"
