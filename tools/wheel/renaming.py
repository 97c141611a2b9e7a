"""Renames the packages of the checkout in import statements, and nothing else: neither strings nor line numbers change.

`from log.segment import x` becomes `from barnabas.log.segment import x`. `import log.segment` binds `log` itself and
cannot be renamed alone; it is refused, as `from log import segment` says the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP = "barnabas"
RENAMED = ("actors", "log", "protocol", "tools")
UNCHANGED = ("pyspark_barnabas",)
"""PySpark finds a data source by this name at the top. What it imports is renamed."""
_FROM = re.compile(rb"from\s+")


class UnrenamableImport(Exception):
    """An import statement that binds one of the names at the top."""


def renamed(source: bytes, file: str) -> bytes:
    """The source with its imports of the packages renamed; `file` is for messages."""
    lines = source.splitlines(keepends=True)
    for number, column in sorted(_places(ast.parse(source, file), file, lines), reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[:column] + TOP.encode() + b"." + line[column:]
    return b"".join(lines)


def modules(root: Path) -> Iterator[tuple[Path, str]]:
    """The files of the wheel that stand in the checkout `root`, and where each of them belongs in the wheel."""
    build = root / "tools" / "wheel"
    for folder, place in (
        *((root / name, f"{TOP}/{name}") for name in RENAMED),
        *((root / name, name) for name in UNCHANGED),
        (build / TOP, TOP),
    ):
        for path in sorted(folder.rglob("*")):
            is_of_build = path.is_relative_to(build) and folder != build / TOP
            if path.suffix == ".py" and not is_of_build:
                yield path, f"{place}/{path.relative_to(folder).as_posix()}"
    yield build / TOP / "py.typed", f"{TOP}/py.typed"


def _places(tree: ast.AST, file: str, lines: list[bytes]) -> Iterator[tuple[int, int]]:
    """The line and the byte in it where a name begins that is to be renamed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_renamed(node.module or ""):
            found = _FROM.match(lines[node.lineno - 1], node.col_offset)
            assert found is not None, f"{file}:{node.lineno}: no name after `from`"
            yield node.lineno, found.end()
        elif isinstance(node, ast.Import):
            for name in node.names:
                if _is_renamed(name.name):
                    if name.asname is None:
                        told = f"{file}:{node.lineno}: {ast.unparse(node)}: write {_wanted(name.name)}"
                        raise UnrenamableImport(told)
                    yield name.lineno, name.col_offset


def _is_renamed(module: str) -> bool:
    return module.partition(".")[0] in RENAMED


def _wanted(module: str) -> str:
    package, _, name = module.rpartition(".")
    return f"`from {package} import {name}`" if package else f"`from {module} import …`"
