"""What is in the wheel and in the source distribution, and what an installation costs."""

from __future__ import annotations

import filecmp
import tarfile
import zipfile
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from tests.wheel.conftest import ROOT
from tools.wheel.installation import build
from tools.wheel.renaming import RENAMED, modules

DEPENDENCIES = {"attrs", "cramjam", "crc32c", "orjson", "outcome", "pykka", "rich", "trio"}
ALL_DEPENDENCIES_MAX = 16
"""With the dependencies of these."""
WHEEL_BYTES_MAX = 2 << 20
UNPACKED_BYTES_MAX = 8 << 20
ALL_BYTES_MAX = 40 << 20
"""With all dependencies, unpacked. The compiled ones differ with the platform."""


def test_the_wheel_has_two_names_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"barnabas", "pyspark_barnabas", "barnabas-0.1.0.dist-info"}
    assert "barnabas/py.typed" in names
    assert {f"barnabas/{package}/__init__.py" for package in RENAMED} <= set(names)
    assert not [name for name in names if name.startswith("barnabas/tools/wheel/")], "the build itself stays out"


def test_each_module_keeps_its_lines(wheel: Path) -> None:
    """Those of a traceback are those of the checkout."""
    with zipfile.ZipFile(wheel) as archive:
        for path, place in modules(ROOT):
            assert archive.read(place).count(b"\n") == path.read_bytes().count(b"\n"), place


def test_the_wheel_of_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, "sdist", tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (tmp_path / "wheel").mkdir()
    again = build(source, "wheel", tmp_path / "wheel")
    assert again.name == wheel.name
    assert filecmp.cmp(wheel, again, shallow=False)


def test_an_installation_is_small(wheel: Path, python: Path) -> None:
    """README tells these figures."""
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(one.file_size for one in archive.infolist())
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX
    assert unpacked <= UNPACKED_BYTES_MAX
    (ours,) = distributions(name="barnabas", path=[*map(str, python.parents[1].glob("lib/*/site-packages"))])
    assert needed_by(ours) == DEPENDENCIES
    everything, new = set(DEPENDENCIES), set(DEPENDENCIES)
    while new:
        new = set().union(*(needed_by(distribution(name)) for name in new)) - everything
        everything |= new
    assert len(everything) <= ALL_DEPENDENCIES_MAX, sorted(everything)
    assert unpacked + sum(map(bytes_of, everything)) <= ALL_BYTES_MAX


def needed_by(one: Distribution) -> set[str]:
    """What a distribution needs here, without extras."""
    wanted = map(Requirement, one.requires or ())
    return {one.name.lower() for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})}


def bytes_of(name: str) -> int:
    return sum(file.size or 0 for file in distribution(name).files or ())
