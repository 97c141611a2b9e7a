"""`python -m tools.cli COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys

from tools.cli import (
    brokers,
    consume,
    drain,
    dump_log,
    groups,
    move,
    produce,
    recover_metadata,
    topics,
    transactions,
)

COMMANDS = {
    "topics": topics,
    "produce": produce,
    "consume": consume,
    "groups": groups,
    "transactions": transactions,
    "brokers": brokers,
    "move": move,
    "drain": drain,
    "dump-log": dump_log,
    "recover-metadata": recover_metadata,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.cli",
        description="Look into and work with Barnabas.",
        epilog="example:\n  python -m tools.cli topics list --bootstrap 127.0.0.1:9092",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.__doc__))
    options = parser.parse_args(arguments)
    try:
        code: int = COMMANDS[options.command].run(options)
        sys.stdout.flush()  # here, where an error can be handled, and not when the interpreter ends
        return code
    except BrokenPipeError:  # the reader of the output has ended; the rest of the buffer is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
