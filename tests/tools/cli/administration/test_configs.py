"""`barnabas configs`: what it tells of topics and brokers, and what it changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools.cli.root import main
from tools.client.admin import Admin

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(1, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def command(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["--bootstrap", bootstrap, "configs", *arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = unique("topic")
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication_factor=1, configs={"retention.ms": "60000"})
    return name


def test_configs_of_a_topic_are_told_set_and_reset(command: Command, topic: str) -> None:
    code, out, _ = command("describe", "topic", topic)
    assert code == 0
    assert {"retention.ms\t60000\ttopic", "cleanup.policy\tdelete\tdefault"} <= {*out.splitlines()}
    assert command("describe", "topic", topic, "--set")[1] == "retention.ms\t60000\ttopic\n"
    dry = command("alter", "topic", topic, "segment.bytes=1048576", "retention.ms=", "--dry-run")
    assert dry[:2] == (0, f"configs of topic {topic} could be changed: segment.bytes, retention.ms\n")
    done = command("alter", "topic", topic, "segment.bytes=1048576", "retention.ms=")
    assert done[:2] == (0, f"configs of topic {topic} changed: segment.bytes, retention.ms\n")
    after = "segment.bytes\t1048576\ttopic\n"
    wait_until(lambda: command("describe", "topic", topic, "--set")[1] == after, lambda: "not changed")


def test_configs_of_a_broker_are_told_and_not_changed(command: Command) -> None:
    told = json.loads(command("describe", "broker", "1", "--set", "--json")[1])
    assert told["broker"] == "1"
    (node,) = [one for one in told["configs"] if one["name"] == "node.id"]
    assert (node["value"], node["source"], node["default"]) == ("1", "the broker's file", False)
    for broker in ("1", "all"):
        code, out, err = command("alter", "broker", broker, "num.partitions=3", "--json")
        assert code == 1
        assert json.loads(out)["error"]["name"] == "INVALID_CONFIG"
        assert "num.partitions cannot be changed while brokers run" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("describe", "broker", "9"), "there is no broker '9'; alive are 1\n"),
        (("describe", "topic", "nowhere"), "there is no topic 'nowhere'\n"),
        (("alter", "topic", "nowhere", "retention.ms=1"), "there is no topic 'nowhere'\n"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(command: Command, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.endswith(told)
    assert json.loads(command(*arguments, "--json")[1])["error"]["message"]
