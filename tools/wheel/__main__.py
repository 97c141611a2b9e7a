"""`python -m tools.wheel DIRECTORY`: the wheel in an environment there, and its tests, which `make test-long` runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.wheel import tests_copy
from tools.wheel.installation import BuildFailed, build, installed

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tools.wheel DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        python = installed(build(ROOT, "wheel", directory), directory / "environment")
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    tests_copy.copy(ROOT, directory)
    print(f"cd {directory} && {python.relative_to(directory)} -m pytest -m 'not checkout'")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
