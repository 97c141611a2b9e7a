"""The tree shows the architecture: maps are true, folders small, names unique, and nothing imports in a circle."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).parents[1]
ROOTS = ("actors", "log", "protocol", "pyspark_barnabas", "tools")
ONE_FILE_PER_API = ("actors/serving/kafka/handlers", "protocol/messages")
MODULES_MAX = 16
ARCHITECTURE_BYTES_MAX = 10_240


PACKAGES = [path.parent for root in ROOTS for path in sorted((ROOT / root).rglob("__init__.py"))]


def modules_in(package: Path) -> set[str]:
    """The modules and packages directly inside."""
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.parent.name for path in package.glob("*/__init__.py")}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_the_map_of_a_package_names_exactly_its_modules(package: Path) -> None:
    if named(package) in ONE_FILE_PER_API or not modules_in(package):
        return
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    told = re.findall(r"^([a-z][a-z0-9_]*) {2,}\S", text, re.MULTILINE)
    assert sorted(told) == sorted(modules_in(package)), "a line `name  what it is` for each module"


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_no_folder_is_crowded_or_has_one_module_alone(package: Path) -> None:
    count = len(modules_in(package))
    if named(package) not in (*ONE_FILE_PER_API, "pyspark_barnabas"):
        assert 2 <= count <= MODULES_MAX or (count <= MODULES_MAX and (package / "__main__.py").exists())


@cache
def imports() -> Mapping[str, set[str]]:
    """Which module imports which, for type checkers alone too."""
    graph = grimp.build_graph(*ROOTS, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_nothing_imports_in_a_circle() -> None:
    """Neither modules nor packages: what is inside of a package counts as the package."""
    children: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, imported in imports().items():
        for other in imported:
            one, two = module.split("."), other.split(".")
            shared = next((at for at, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), None)
            if shared is not None:
                children[".".join(one[:shared])][one[shared]].add(two[shared])
    circles = []
    for parent, graph in children.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circles.append(f"{parent or 'the top'}: {' ← '.join(error.args[1])}")
    assert not circles


def test_no_two_classes_have_one_name() -> None:
    """Of a broker's code. Messages of Kafka and private classes aside, a search for a name finds one class."""
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        if named(package).startswith("tools"):
            continue  # a program each, which speaks of clients' producers as brokers speak of theirs
        for path in package.glob("*.py"):
            if named(package) not in ONE_FILE_PER_API:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                for node in tree.body:
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                        places[node.name].append(named(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_map_of_all_is_short_and_names_what_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= ARCHITECTURE_BYTES_MAX
    missing = []
    for path, name in re.findall(r"`([a-z_/]+\.(?:py|md))(?::(\w+))?`", text):
        found = (
            [ROOT / path]
            if (ROOT / path).exists()
            else [one for root in ROOTS for one in ROOT.glob(f"{root}/**/{path}")]
        )
        if len(found) != 1 or (
            name and not re.search(rf"\b(def|class) {name}\b", found[0].read_text(encoding="utf-8"))
        ):
            missing.append(f"{path}:{name}" if name else path)
    assert not missing


def test_the_changelog_is_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 60
