"""What a broker says of partitions that nobody leads."""

from __future__ import annotations

import logging

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.simulation.test_power_losses import lose_power, until, world_at_work
from tools.cli.root import main
from tools.client.json_client import JsonClient, Refused


def test_a_warning_names_the_replicas_that_an_election_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    """The power goes everywhere, and one disk does not come back."""
    world, group = world_at_work(1, writers=2)
    world.sim.run(seconds=1.0)
    lost = world.keepers(group)[0]
    for broker in world.living:
        world.kill(broker, power=True)
    world.wipe(lost)
    with caplog.at_level(logging.WARNING):
        for broker in world.brokers:
            world.start(broker)
        world.sim.run(seconds=40.0)
    told = {record.getMessage() for record in caplog.records if "have no leader" in record.getMessage()}
    assert told
    assert all(f"waits for broker {lost}: broker {lost} came back with another data directory" in one for one in told)
    assert all("may have lost acknowledged records" in one for one in told)
    assert all("`barnabas topics recover` shows what is left" in one for one in told)


def test_nothing_is_said_of_a_partition_that_is_led(caplog: pytest.LogCaptureFixture) -> None:
    world, group = world_at_work(1)
    with caplog.at_level(logging.WARNING):
        lose_power(world)
        until(world, lambda: world.leader(group) is not None)
        world.sim.run(seconds=40.0)
    assert not [record for record in caplog.records if "have no leader" in record.getMessage()]


def test_a_warning_names_the_voters_that_the_metadata_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    world, _ = world_at_work(1)
    voters = [voter.broker for voter in world.facts.first_voters]
    for broker in voters[1:]:
        world.kill(broker)
    with caplog.at_level(logging.WARNING):
        world.sim.run(seconds=70.0)
    told = [record.getMessage() for record in caplog.records if "the metadata has no leader" in record.getMessage()]
    lost = ", ".join(map(str, voters[1:]))
    assert f"it waits for brokers {lost}: brokers {lost} cannot be reached" in told[0]
    assert "`barnabas recover-metadata cluster.toml` shows what is left" in told[0]
    living = len(world.living)
    assert living <= len(told) <= 2 * living, "once a minute"


def test_topics_describe_names_the_replicas_that_are_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(3, log_level="error") as cluster:
        cluster.admin.create_topic("orders", assignment=((1, 2),))
        cluster.kill(1)
        bootstrap = cluster.bootstrap.split(",")[1]

        def told() -> str:
            assert main(["topics", "describe", "orders", "--bootstrap", bootstrap]) == 0
            return capsys.readouterr().out

        reason = "without leader, waits for broker 1: broker 1 cannot be reached"
        wait_until(lambda: reason in told(), told)
        with pytest.raises(Refused, match="there is no partition 7"), JsonClient(bootstrap) as client:
            client.call("survivors", topic="orders", partition=7)
