"""The build hook of hatchling, which pyproject.toml names: it puts renamed modules into a wheel."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


class WheelHook(BuildHookInterface[Any]):
    """Writes the renamed modules to a temporary directory, from which hatchling takes them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == EDITABLE:
            return
        renaming = runpy.run_path(str(Path(__file__).with_name("renaming.py")))
        self._made = tempfile.TemporaryDirectory(prefix="barnabas-wheel-")
        for path, place in renaming["modules"](Path(self.root)):
            made = Path(self._made.name, place)
            made.parent.mkdir(parents=True, exist_ok=True)
            source = path.read_bytes()
            made.write_bytes(renaming["renamed"](source, str(path)) if path.suffix == ".py" else source)
            build_data["force_include"][str(made)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != EDITABLE:
            self._made.cleanup()
