"""`python -m tools.cli COMMAND`, which the installed command `barnabas` is too."""

from __future__ import annotations

import sys

from tools.cli.root import main

if __name__ == "__main__":
    sys.exit(main(prog=f"python -m {__package__}"))
