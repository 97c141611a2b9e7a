"""Sessions of pytest with the plugin, as a project of somebody else has them: processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from tools.testing import plugin

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROJECT = HERE / "project"
SECONDS = 240.0


@frozen
class Session:
    """How a session ended."""

    outcomes: dict[str, str]
    """PASSED, FAILED or ERROR, by a test's name without its file."""
    output: str
    directory: Path
    """Its temporary files."""

    def section(self, title: str) -> list[str]:
        """The lines below each title of this text in the output."""
        pattern = rf"^[=-]+ {re.escape(title)} [=-]+\n(.*?)(?=^[=-]{{3}}|\Z)"
        texts = re.findall(pattern, self.output, re.MULTILINE | re.DOTALL)
        return [line for text in texts for line in text.splitlines()]


def command(*arguments: str) -> list[str]:
    """The plugin by its own name: it need not be installed, and if it is, it is loaded once."""
    return [
        sys.executable, "-m", "pytest", "-rpfE", "-p", plugin.__name__, "-p", "no:barnabas", "-p", "no:cacheprovider",
        "-c", str(PROJECT / "pytest.ini"), *arguments,
    ]  # fmt: skip


def environment(directory: Path) -> dict[str, str]:
    """Temporary files go to this directory. The plugin is found, whatever the working directory is."""
    return os.environ | {"TMPDIR": str(directory), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def run(directory: Path, *arguments: str) -> Session:
    done = subprocess.run(
        command(*arguments), cwd=PROJECT, env=environment(directory), timeout=SECONDS, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    told = re.findall(r"^(PASSED|FAILED|ERROR) \S+?::(\S+)", done.stdout, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in told}
    return Session(outcomes, done.stdout, directory)
