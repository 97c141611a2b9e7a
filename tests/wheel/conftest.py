"""The wheel and the checkout, each installed once for all workers, and a project with packages of the same names."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wheel.project import Project
from tools.wheel.installation import build, installed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory of all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "wheel"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """The wheel of the checkout."""
    return made_once(shared / "built", lambda directory: build(ROOT, "wheel", directory))


@pytest.fixture(scope="session")
def python(shared: Path, wheel: Path) -> Path:
    """A Python in which the wheel is installed."""
    return made_once(shared / "installed", lambda directory: installed(wheel, directory))


@pytest.fixture(scope="session")
def editable_python(shared: Path) -> Path:
    """A Python in which the checkout is installed as it is."""
    return made_once(shared / "editable", lambda directory: installed(ROOT, directory, editable=True))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def made_once(directory: Path, make: Callable[[Path], Path]) -> Path:
    """What `make` gives for the directory. The first worker that asks makes it; others wait."""
    with directory.with_suffix(".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if not (made := lock.read()):
            directory.mkdir()
            made = str(make(directory))
            lock.write(made)
    return Path(made)
