"""`python -m barnabas COMMAND`, and the command `barnabas`."""

from __future__ import annotations

import sys

from tools.cli.root import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(prog=f"python -m {__package__}"))
