"""Records are for the user who runs the brokers, and for nobody else on the machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster_file.config import TopicConfig
from actors.harness import Cluster


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("generous_umask")
def test_nobody_else_may_read_or_write_a_data_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with Cluster(1, data_dir=data_dir, topics=[TopicConfig("one", 1, 1)]):
        found = [data_dir, *data_dir.rglob("*")]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in found if path.exists()}
    assert len(modes) > 10
    assert {oct(mode) for path, mode in modes.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in modes.items() if path.is_file()} == {"0o600"}


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """It may be one that others need, too."""
    tmp_path.chmod(0o755)
    with Cluster(1, data_dir=tmp_path):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
        assert stat.S_IMODE((tmp_path / "1").stat().st_mode) == 0o700
