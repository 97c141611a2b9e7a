"""A service manager is told states where the environment says so, and nothing depends on it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from actors.process.service_manager import READY, VARIABLE, notify


def test_a_state_is_told_at_a_path_and_at_an_abstract_name(own_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, address in ((f"{own_tmp}/notify", f"{own_tmp}/notify"), (f"@{own_tmp}", f"\0{own_tmp}")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(20)
            monkeypatch.setenv(VARIABLE, name)
            notify(READY, "all is well")
            assert manager.recv(1024) == b"READY=1\nSTATUS=all is well"


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_service_manager_nobody_is_told(
    name: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if name is not None:
        monkeypatch.setenv(VARIABLE, name)
    notify(READY, "all is well")
    assert caplog.records == []


def test_a_service_manager_that_is_gone_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "/tmp/bt-nobody-listens")
    notify(READY, "all is well")
    (record,) = caplog.records
    told = "launcher: NOTIFY_SOCKET=/tmp/bt-nobody-listens was not told of READY=1: [Errno 2] No such file or directory"
    assert record.getMessage() == told
