"""Imports are renamed and nothing else; and no string names a module, which the renaming would not reach."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wheel.conftest import ROOT
from tools.wheel.renaming import RENAMED, UnrenamableImport, modules, renamed

TELL_OF_THE_CHECKOUT = (
    "tools/cli/reference.py",
    "tools/docs.py",
    "tests/docs/",
    "tests/tools/test_docs.py",
    "tests/wheel/",
)
"""Their strings are for people who have the checkout, and run nothing."""
_MODULE = re.compile(rf"(?<![\w./-])(?:{'|'.join(RENAMED)})(?:\.[a-z_]\w*)+")
_IMPORT = re.compile(rb"^\s*import (actors|log|protocol|tools)\b", re.MULTILINE)


def test_imports_are_renamed_wherever_they_stand() -> None:
    before = b"""\
from actors.runtime import Actor
from log import settings
import protocol.errors as errors, tools.client.admin as admin; from log.segment import a

def later() -> None:
    \xce\xb1 = "\xe2\x86\x92"; from  tools.cli import (
        topics,
    )
"""
    after = b"""\
from barnabas.actors.runtime import Actor
from barnabas.log import settings
import barnabas.protocol.errors as errors, barnabas.tools.client.admin as admin; from barnabas.log.segment import a

def later() -> None:
    \xce\xb1 = "\xe2\x86\x92"; from  barnabas.tools.cli import (
        topics,
    )
"""
    assert renamed(before, "x.py").decode() == after.decode()


@pytest.mark.parametrize(
    "source",
    [
        '"""from log.segment import a"""',
        'x = "log.segment.bytes"  # import log.segment as s',
        "import logging, logs.x, toolset, my.tools.saw as saw",
        "from . import log; from .tools import saw; from trio.log import a",
        "log = tools = 1; log.segment.bytes; tools.x",
    ],
)
def test_nothing_else_is_changed(source: str) -> None:
    assert renamed(source.encode(), "x.py").decode() == source


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("\nimport log.segment.indexes", "x.py:2: import log.segment.indexes: write `from log.segment import indexes`"),
        ("import os, tools", "x.py:1: import os, tools: write `from tools import …`"),
    ],
)
def test_what_binds_a_name_of_the_top_is_refused(source: str, told: str) -> None:
    with pytest.raises(UnrenamableImport) as refused:
        renamed(source.encode(), "x.py")
    assert str(refused.value) == told


def test_no_import_of_a_test_binds_a_name_of_the_top() -> None:
    """`make test-long` renames the tests too."""
    for path in (ROOT / "tests").rglob("*.py"):
        if _IMPORT.search(source := path.read_bytes()):
            renamed(source, str(path))


def test_no_string_names_a_module() -> None:
    """Say `__name__`, `__package__`, or the `__name__` of a module that is imported."""
    named = [
        f"{path.relative_to(ROOT)}:{number}: {text}"
        for path in (*(path for path, _ in modules(ROOT) if path.suffix == ".py"), *(ROOT / "tests").rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(TELL_OF_THE_CHECKOUT)
        for number, text in modules_named(path)
    ]
    assert not named, "\n".join(named)


def modules_named(path: Path) -> Iterator[tuple[int, str]]:
    """The modules that strings of a file name, and their lines. A docstring is not a string."""
    text = path.read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("from ", "import ")))
    if not any(map(_MODULE.search, lines)):
        return  # most files; to parse all of them would take seconds
    tree = ast.parse(text)
    told = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            for found in _MODULE.finditer(node.value):
                if is_module(found[0]):
                    yield node.lineno, found[0]


def is_module(name: str) -> bool:
    """Is it a module, or something in one? "log.segment.bytes" is not, though there is a package log.segment."""
    path = ROOT.joinpath(*name.split("."))
    parents = (one.with_suffix(".py") for one in path.parents if one.is_relative_to(ROOT) and one != ROOT)
    return path.is_dir() or path.with_suffix(".py").is_file() or any(one.is_file() for one in parents)
