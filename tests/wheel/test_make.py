"""`make cluster` on a machine whose Python does not do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wheel.conftest import ROOT

TOO_OLD = 'case "$1" in --version) echo Python 3.10.13;; *) exit 1;; esac'
WITHOUT_VENV = 'case "$1" in -m) mkdir -p .venv/bin && : >.venv/bin/python; exit 1;; esac'


@pytest.mark.parametrize(
    ("python", "told"),
    [
        (TOO_OLD, "Barnabas needs Python 3.11 or newer; ./python is Python 3.10.13. Name another one: make cluster "),
        (WITHOUT_VENV, ""),
    ],
    ids=["too old", "without venv"],
)
def test_no_broken_environment_is_left(python: str, told: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # `make test`
    done = subprocess.run(
        ["make", "--silent", "cluster", "PYTHON=./python"], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.partition("PYTHON=")[0].partition("make: ***")[0] == told
    assert not (tmp_path / ".venv").exists()
