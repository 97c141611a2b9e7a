"""Fixtures for tests against Kafka: a replicated cluster of real brokers, without any set-up.

kafka                  for one test: `.bootstrap`, `.topic()`; the cluster is shared by all tests of the session
barnabas               another name for it
kafka_cluster          the same for a whole session: its topics last as long
kafka_cluster_factory  starts clusters of the test's own, whose brokers may be killed
kafka_external         a running cluster, by its bootstrap servers

The brokers are imported only in the process of the shared cluster, and by the first test with a cluster of its own.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tools.testing import connections, options
from tools.testing.control import SharedBackend
from tools.testing.kafka import Backend, Kafka, KafkaClusterFactory, KafkaFixtureError
from tools.testing.options import Options

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

LEFT_OPEN = "Kafka clients left open"
BROKER_LOG, LEADERS = "Kafka broker log", "Kafka leaders"
LINES_MAX = 200
"""Of each section in the report of a test that failed."""
_OWNER, _OUTPUT = "kafka_owner", "kafka_shared"
_shared = pytest.StashKey[SharedBackend]()
_left_open = pytest.StashKey[list[str]]()
_failed = pytest.StashKey[bool]()
_used = pytest.StashKey[list[Kafka]]()


# -- the session -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Leave the assertions of brokers as they are: pytest rewrites those of every package that has a plugin."""
    rewritten: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    rewritten.discard(__name__.partition(".")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With xdist: tell a worker with whose end the cluster ends."""
    node.workerinput[_OWNER] = os.getpid()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With xdist: a worker has ended, and says where the cluster is that its tests have used."""
    place = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if place is not None:
        node.config.stash[_shared] = SharedBackend(*place)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _shared in config.stash and _worker(config) is None:
        config.stash[_shared].stop()


def _worker(config: pytest.Config) -> Mapping[str, Any] | None:
    """What xdist has told this process, if it is a worker."""
    told: Mapping[str, Any] | None = getattr(config, "workerinput", None)
    return told


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _kafka_shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SharedBackend:
    from tools.testing import shared  # noqa: PLC0415  only sessions that need a cluster load it

    config, directory, owner = request.config, tmp_path_factory.getbasetemp(), os.getpid()
    if worker := _worker(config):
        directory, owner = directory.parent, worker[_OWNER]
    told = Options(config)
    backend = shared.join(directory, owner, told.brokers, told.settings)
    if worker:
        config.workeroutput[_OUTPUT] = backend.place  # type: ignore[attr-defined]
    else:
        config.stash[_shared] = backend
    return backend


@pytest.fixture(scope="session")
def _kafka_tokens(request: pytest.FixtureRequest) -> Iterator[str]:
    """What makes the names of each test unique; the same in each run."""
    worker = _worker(request.config)
    prefix = "" if worker is None else f"{worker['workerid']}_"
    return (f"{prefix}{number}" for number in itertools.count(1))


@pytest.fixture(scope="session")
def kafka_cluster(_kafka_shared: Backend, _kafka_tokens: Iterator[str]) -> Iterator[Kafka]:
    """The cluster that all tests share. Topics that are made by this fixture last until the session ends."""
    kafka = Kafka(_kafka_shared, "session", next(_kafka_tokens))
    yield kafka
    kafka.forget()


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_shared: Backend, _kafka_tokens: Iterator[str]) -> Iterator[Kafka]:
    """The cluster that all tests share, with topics of this test alone."""
    yield from _for_test(request, Kafka(_kafka_shared, request.node.name, next(_kafka_tokens)))


@pytest.fixture
def barnabas(kafka: Kafka) -> Kafka:
    """The fixture `kafka`."""
    return kafka


@pytest.fixture
def kafka_cluster_factory(
    request: pytest.FixtureRequest, _kafka_tokens: Iterator[str]
) -> Iterator[KafkaClusterFactory]:
    """Starts clusters of this test's own, of as many brokers and with the settings that it names."""
    from actors.harness import Cluster  # noqa: PLC0415  it loads the brokers
    from tools.testing.local import LocalBackend  # noqa: PLC0415

    told = Options(request.config)
    with ExitStack() as clusters:

        def make(brokers: int | None = None, *, config: Mapping[str, object] | None = None, **others: Any) -> Kafka:
            count, settings = told.with_arguments(brokers, config)
            if not others.get("processes"):  # their lines are kept for a report, and written nowhere
                others.setdefault("log_level", "info")
            cluster = clusters.enter_context(Cluster(count, config=settings, **others))
            kafka = Kafka(LocalBackend(cluster), request.node.name, next(_kafka_tokens))
            request.node.stash.setdefault(_used, []).append(kafka)
            clusters.callback(_note_left_open, request.node, kafka, kafka.bootstrap, {})
            return kafka

        yield make


@pytest.fixture
def kafka_external(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """The running cluster of --kafka-bootstrap, with topics of this test alone."""
    bootstrap = Options(request.config).bootstrap
    if not bootstrap:
        raise KafkaFixtureError("kafka_external: name a running cluster, as --kafka-bootstrap localhost:9092")
    from tools.testing.running import RunningBackend  # noqa: PLC0415

    yield from _for_test(request, Kafka(RunningBackend(bootstrap), request.node.name, secrets.token_hex(4)))


def _for_test(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[Kafka]:
    request.node.stash.setdefault(_used, []).append(kafka)
    bootstrap = kafka.bootstrap
    before = connections.to(bootstrap)
    yield kafka
    _note_left_open(request.node, kafka, bootstrap, before)
    kafka.forget()


# -- clients that a test has not closed --------------------------------------------------------------------------------


def _note_left_open(item: pytest.Item, kafka: Kafka, bootstrap: str, before: connections.Connections) -> None:
    left = {port: broker for port, broker in connections.to(bootstrap).items() if port not in before}
    if not left:
        return
    ids = kafka.clients()
    places: dict[str, list[str]] = {}
    for port, broker in sorted(left.items()):
        places.setdefault(ids.get(f"127.0.0.1:{port}", "a client"), []).append(f"{port} to {broker}")
    item.stash.setdefault(_left_open, []).extend(
        f"{client} (port {', '.join(where)})" for client, where in places.items()
    )


# -- reports -----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        item.stash[_failed] = True  # its traceback keeps its clients
        if call.when != "teardown":
            report.sections.extend(_story(item.stash.get(_used, [])))
    elif call.when == "teardown" and (left := item.stash.get(_left_open, [])) and _failed not in item.stash:
        report.sections.append((LEFT_OPEN, "\n".join(left)))
    return report


def _story(clusters: list[Kafka]) -> Iterator[tuple[str, str]]:
    """What happened in these clusters since the test began."""
    for kafka in clusters:
        for title, ask in ((BROKER_LOG, kafka.broker_log), (LEADERS, kafka.leader_history)):
            try:
                lines = ask()
            except KafkaFixtureError as error:  # the cluster may be why the test failed
                lines = [str(error)]
            if lines:
                yield title, "\n".join(lines[-LINES_MAX:])


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Name them at the end, from all workers: what is left open is a mistake, but not always one of that test."""
    reports = [one for some in terminalreporter.stats.values() for one in some if isinstance(one, pytest.TestReport)]
    told = [
        f"{report.nodeid}: {client}"
        for report in reports
        for title, text in report.sections
        if title == LEFT_OPEN
        for client in text.splitlines()
    ]
    if told:
        terminalreporter.section(LEFT_OPEN, yellow=True)
        for line in told:
            terminalreporter.line(line)
