"""Every way to use the installed wheel, from a project whose own packages have the names that the checkout has."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wheel.project import NOT_OURS, OWN, Project

RECORDS = """
from barnabas import Admin, Cluster, Consumer, Producer

for processes in (False, True):
    with Cluster(brokers=1, processes=processes) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        with Producer(cluster.bootstrap) as producer:
            producer.send("orders", b"two cups").result(10)
        with Consumer(cluster.bootstrap) as consumer:
            consumer.assign({("orders", 0): 0})
            while not (records := consumer.poll(1.0)):
                pass
        print([record.value for record in records["orders", 0]])
"""
ORDERS = """
from barnabas import Producer
from barnabas.pytest_plugin import Kafka

def test_orders(kafka: Kafka) -> None:
    with Producer(kafka.bootstrap) as producer:
        producer.send(kafka.topic(), b"two cups").result(10)
"""
SERVES = """
from barnabas import Cluster

with Cluster(brokers=1, processes=True) as cluster:
    print(len(cluster.alive))
"""
CLUSTER_FILE = """
[cluster]
name = "cups"
[[broker]]
id = 1
port = 0
[[topic]]
name = "orders"
"""


def test_a_program(python: Path, project: Project) -> None:
    """Brokers in its process, and brokers with processes of their own."""
    assert project.run_program(python, RECORDS + NOT_OURS + OWN) == "[b'two cups']\n[b'two cups']\n"


def test_a_program_that_imports_its_own_packages_first(python: Path, project: Project) -> None:
    assert project.run_program(python, OWN + SERVES) == "1\n"


def test_the_commands(python: Path, project: Project) -> None:
    """A cluster by `python -m`, then the command, by its name and by `python -m`, and a line of JSON."""
    module, command = (python, "-m", "barnabas"), python.with_name("barnabas")
    with cluster(python, project) as bootstrap:
        at = ("--bootstrap", bootstrap)
        project.run(command, "produce", "orders", *at, given="two cups\n")
        host, _, port = bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client, client.makefile("rwb", 0) as lines:
            lines.write(b'{"op":"produce","topic":"orders","value":"a jug"}\n')
            assert "error" not in json.loads(lines.readline())
        read = project.run(*module, "consume", "orders", "--from", "beginning", "--exit", "--format", "{value}", *at)
        assert read == "two cups\na jug\n"
        assert "orders" in project.run(*module, "topics", "list", *at)


def test_the_fixtures_of_pytest(python: Path, project: Project) -> None:
    """pytest finds the plugin because it is installed."""
    (project.directory / "test_orders.py").write_text(ORDERS + OWN)
    told = project.run(
        python, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio",
        "-p", "no:cacheprovider", "test_orders.py",
    )  # fmt: skip
    assert "1 passed" in told


def test_importing_the_package_imports_nothing_else(python: Path, project: Project) -> None:
    program = """
import sys
import barnabas
assert not sys.modules.keys() & {"attrs", "trio", "pykka", "orjson", "logging", "subprocess"}
assert [name for name in sys.modules if name.startswith("barnabas")] == ["barnabas"]
assert dir(barnabas)[:4] == sorted(barnabas.__all__) == ["Admin", "Cluster", "Consumer", "Producer"]
try:
    barnabas.Broker
except AttributeError as error:
    print(error)
"""
    assert project.run_program(python, program) == "module 'barnabas' has no attribute 'Broker'\n"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_type_checkers_know_the_public_names(python: Path, project: Project) -> None:
    file = project.directory / "typed.py"
    file.write_text("import barnabas\nreveal_type(barnabas.Cluster(brokers=3).bootstrap)\nbarnabas.Broker\n")
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir=/dev/null", file)
    done = subprocess.run(command, cwd=project.directory, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        'typed.py:2: note: Revealed type is "str"',
        'typed.py:3: error: Module has no attribute "Broker"  [attr-defined]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], done.stdout + done.stderr


def test_spark_finds_the_source_by_its_name(python: Path, project: Project) -> None:
    pytest.importorskip("pyspark")
    program = "from pyspark_barnabas import DefaultSource\nprint(DefaultSource.name(), DefaultSource.__module__)"
    assert project.run_program(python, program + NOT_OURS + OWN) == "barnabas barnabas.tools.spark.source\n"


def test_an_editable_install_has_the_same_names(editable_python: Path, tmp_path: Path) -> None:
    """It takes the names of the checkout too, so it is used from an empty directory."""
    program = "import barnabas\nfor name in barnabas.__all__: print(getattr(barnabas, name).__module__)"
    for command in ((editable_python, "-c", program), (editable_python, "-m", "barnabas", "topics", "--help")):
        done = subprocess.run(
            command, cwd=tmp_path, env=Project(tmp_path / "p").environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert (editable_python.with_name("barnabas")).exists()


@contextmanager
def cluster(python: Path, project: Project) -> Iterator[str]:
    """A broker of the wheel, as a user starts it; gives its address."""
    file = project.directory / "cluster.toml"
    file.write_text(CLUSTER_FILE)
    command = (python, "-m", "barnabas.actors.cluster", file)
    with (project.directory / "log.txt").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=project.directory, env=project.environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        with process:
            assert process.stdout is not None
            try:
                ready = process.stdout.readline()
                assert ready.startswith("ready: bootstrap "), (project.directory / "log.txt").read_text()
                yield ready.split()[-1]
            finally:
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
