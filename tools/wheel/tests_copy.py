"""A copy of the tests that tests the installed wheel: their imports are renamed as the wheel's are.

What tests read of the checkout stands beside it, but not the packages. Tests that need those are marked `checkout`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.wheel.renaming import renamed

_NOT_OF_THE_WHEEL = ("tests/wheel", "tests/docs")
_BESIDE = ("pyproject.toml", "cluster.toml", "README.md")


def copy(root: Path, directory: Path) -> None:
    """Copy the tests of the checkout `root` into the directory, but not those of the build and of the pages."""
    left_out = [root / name for name in _NOT_OF_THE_WHEEL]
    for path in sorted((root / "tests").rglob("*")):
        is_left_out = "__pycache__" in path.parts or any(map(path.is_relative_to, left_out))
        if path.is_file() and not is_left_out:
            place = directory / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            if path.suffix == ".py":
                place.write_bytes(renamed(path.read_bytes(), str(path)))
    for name in _BESIDE:
        shutil.copy(root / name, directory)
