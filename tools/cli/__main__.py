"""`python -m tools.cli COMMAND`."""

from __future__ import annotations

import argparse
import sys

from tools.cli import dump_log

COMMANDS = {"dump-log": dump_log}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.cli", description="Look into and work with Barnabas.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.__doc__))
    options = parser.parse_args(arguments)
    try:
        code: int = COMMANDS[options.command].run(options)
        return code
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
