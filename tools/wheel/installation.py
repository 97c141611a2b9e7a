"""The wheel, or the checkout as it is, in a virtual environment that borrows all other packages from this Python.

Neither the network nor an isolated build is needed: hatchling is one of the packages that are borrowed.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_OFFLINE = ("--no-deps", "--no-index", "--no-compile", "--no-build-isolation")


class BuildFailed(Exception):
    """hatchling or pip has failed. The message is what it said."""


def build(source: Path, target: str, directory: Path) -> Path:
    """Build the `wheel` or the `sdist` of the tree `source`, and give its file in the directory."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory), cwd=source)
    (made,) = directory.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def installed(what: Path, environment: Path, *, editable: bool = False) -> Path:
    """Install a wheel or a tree into a new virtual environment, and give the Python of that."""
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # Directories that a .pth file names follow the environment's own, and their .pth files are not read: an editable
    # install in this Python is not seen.
    borrowed = environment / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text("".join(f"{sysconfig.get_path(name)}\n" for name in ("purelib", "platlib")))
    _run(*_PIP, "--python", str(python), "install", *_OFFLINE, "--ignore-installed", *(["-e"] * editable), str(what))
    return python


def _run(*command: str, cwd: Path | None = None) -> None:
    ran = subprocess.run(  # noqa: S603  our own commands
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ran.returncode:
        raise BuildFailed(f"{' '.join(command)}:\n{ran.stdout}")
