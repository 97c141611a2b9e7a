"""One owner per directory, whose end, however it comes, frees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.broker.directory_lock import LOCK_NAME, DirectoryInUse, DirectoryLock

HOLDER = f"""
import sys, time
from pathlib import Path
from {DirectoryLock.__module__} import DirectoryLock
with DirectoryLock(Path(sys.argv[1]), note="its sockets"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock until its stdin ends."""
    arguments = [sys.executable, "-c", HOLDER, str(directory)]
    root = Path(__file__).parents[3]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_lock_makes_its_directory_and_leaves_no_file(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    with DirectoryLock(directory, note="where") as lock:
        assert (directory / LOCK_NAME).read_text() == f"{os.getpid()}\nwhere\n"
        assert lock.left_behind == ""
    assert list(directory.iterdir()) == []


def test_a_second_owner_is_refused_by_the_pid_of_the_first(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        with pytest.raises(DirectoryInUse) as caught, DirectoryLock(tmp_path):
            pass
        assert str(caught.value) == (
            f"{tmp_path} is in use by another cluster, pid {os.getpid()}; stop it or choose another data_dir"
        )
        assert (tmp_path / LOCK_NAME).read_text().startswith(f"{os.getpid()}\n"), "the first one still holds it"
    with DirectoryLock(tmp_path):
        pass


def test_an_owner_that_has_not_written_its_pid_yet_is_refused_too(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        (tmp_path / LOCK_NAME).write_text("")
        with pytest.raises(DirectoryInUse, match="which is just starting"), DirectoryLock(tmp_path):
            pass


def test_an_owner_in_another_process_is_named(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        with pytest.raises(DirectoryInUse, match=f"pid {other.pid};"), DirectoryLock(tmp_path):
            pass
        other.communicate()
    with DirectoryLock(tmp_path) as lock:
        assert lock.left_behind == ""


def test_a_killed_owner_frees_the_directory_and_leaves_its_note(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert (tmp_path / LOCK_NAME).exists()
    with DirectoryLock(tmp_path) as lock:
        assert lock.left_behind == "its sockets"
        assert (tmp_path / LOCK_NAME).read_text().startswith(f"{os.getpid()}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_is_removed_while_it_is_taken_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that ends between our opening the file and our locking it takes the file with it."""
    lock = DirectoryLock(tmp_path)
    real = lock._still_there
    removed: list[int] = []

    def removed_at_first(fd: int) -> bool:
        if not removed:
            removed.append(fd)
            (tmp_path / LOCK_NAME).unlink()
        return real(fd)

    monkeypatch.setattr(lock, "_still_there", removed_at_first)
    with lock:
        assert removed
        with pytest.raises(DirectoryInUse), DirectoryLock(tmp_path):
            pass


def test_the_lock_is_not_inherited_by_children(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with DirectoryLock(tmp_path):
        child.communicate()
