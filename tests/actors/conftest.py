"""Clusters for tests: each test that asks for one runs twice, with all brokers in one process and with a process each.

Three processes take a second of processor time to start, so the second half of the tests counts as slow.

And the proof, after every such test, that nothing is left of them. Only what belongs to this test is looked at (its own
descendants, its own temporary directory, its own file descriptors), so tests may run beside each other.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.harness import Cluster
from tests.actors.probes import PROBES
from tests.actors.waiting import wait_until

PLACEMENTS = {"one process": False, "a process each": True}

ClusterFactory = Callable[..., Cluster]


def living_children() -> set[psutil.Process]:
    """The living descendants of this process, without multiprocessing's own, which stays for as long as we do."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    children = psutil.Process().children(recursive=True)
    return {child for child in children if child.pid != tracker and child.status() != psutil.STATUS_ZOMBIE}


def open_files() -> dict[str, str]:
    """Our file descriptors and what they lead to."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue  # the one with which we are listing
    return found


def cluster_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "barnabas-cluster"}


@pytest.fixture
def own_tmp(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for everything temporary, with a name short enough for sockets in it."""
    tmp_path_factory.getbasetemp()  # pytest makes its own where temporary files go when it is first asked: not in ours
    directory = Path(tempfile.mkdtemp(prefix="bt-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def leaves_nothing(own_tmp: Path) -> Iterator[None]:
    """Holds that the test leaves no process, thread, file descriptor or temporary file behind."""
    resource_tracker.ensure_running()
    children, files, threads = living_children(), open_files(), cluster_threads()
    yield
    wait_until(lambda: not living_children() - children, lambda: f"processes left: {living_children() - children}")
    wait_until(lambda: not cluster_threads() - threads, lambda: f"threads left: {cluster_threads() - threads}")
    gc.collect()
    wait_until(
        lambda: len(open_files()) <= len(files),
        lambda: f"files left open: {set(open_files().items()) - set(files.items())}",
    )
    left = sorted(str(path) for path in own_tmp.rglob("*"))
    assert not left, f"files left behind: {left}"


@pytest.fixture(params=["one process", pytest.param("a process each", marks=pytest.mark.slow)])
def cluster_factory(request: pytest.FixtureRequest, leaves_nothing: None) -> Iterator[ClusterFactory]:
    """Makes clusters with a probe of each kind on every broker; ends those that the test leaves running."""
    made: list[Cluster] = []

    def make(brokers: int = 3, **options: Any) -> Cluster:
        cluster = Cluster(brokers, processes=PLACEMENTS[request.param], **{"actors": PROBES, **options})
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def cluster(cluster_factory: ClusterFactory) -> Iterator[Cluster]:
    """Three brokers, started."""
    with cluster_factory() as cluster:
        yield cluster
