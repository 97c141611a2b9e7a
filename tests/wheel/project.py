"""Somebody else's project, in which every name is taken that this checkout has at its top."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_FILES = {
    "actors/__init__.py": "",
    "actors/stage.py": "PLAY = 'Hamlet'",
    "log/__init__.py": "",  # a package of its own: log.machines is not in it
    "log/book.py": "ENTRIES = ['cast off']",
    "protocol.py": "VERSION = 7",
    "tools/saw.py": "TEETH = 24",  # without __init__.py: any other package of this name would hide it
}
OWN = """
import actors.stage, log.book, protocol, tools.saw
assert (actors.stage.PLAY, log.book.ENTRIES, protocol.VERSION, tools.saw.TEETH) == ("Hamlet", ["cast off"], 7, 24)
"""
"""The project's own imports."""
NOT_OURS = """
import sys
taken = [name for name in sys.modules if name.partition(".")[0] in ("actors", "log", "protocol", "tools")]
assert not taken, taken
"""
"""No module of Barnabas is at the top. To be run before the project's own imports."""


class Project:
    """Its directory, and programs that run there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, text in _FILES.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, *command: str | Path, given: str | None = None) -> str:
        """Run a command to its good end, and give what it wrote to stdout. Brokers may warn of a busy machine."""
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, input=given, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stdout + done.stderr
        return done.stdout

    def run_program(self, python: Path, program: str) -> str:
        """Run a program that is a file in the project, as most programs are."""
        file = self.directory / "program.py"
        file.write_text(program)
        return self.run(python, "-W", "error", file)

    @property
    def environment(self) -> dict[str, str]:
        """As outside of this project's own tests."""
        return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "PYTEST"))}
