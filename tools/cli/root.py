"""The command `barnabas`, which is `python -m tools.cli` in a checkout: it finds the command that is asked for."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from tools.cli import output
from tools.cli.commands import COMMANDS, OPTIONAL, SECTIONS, Command
from tools.client.addresses import BOOTSTRAP_DEFAULT


def main(arguments: Sequence[str] | None = None, prog: str = "barnabas") -> int:
    """Run one command; returns the exit code. `prog` is how the user calls this program."""
    parser = root_parser(prog)
    options = parser.parse_args(arguments)
    name, *own = options.command
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"{prog} --help lists all"
        parser.error(f"there is no command {name!r}; {hint}")
    # Options before the command are as good as options after it; those win, because they come later.
    before = ["--json"] if options.json else []
    before += [] if options.bootstrap is None else [f"--bootstrap={options.bootstrap}"]
    try:
        code = _run(command, [*before, *own], f"{prog} {command.name}")
        sys.stdout.flush()  # here, where an error can be handled, and not when the interpreter ends
    except BrokenPipeError:  # the reader of the output has ended; the rest of the buffer is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def command_parser(command: Command, prog: str) -> argparse.ArgumentParser:
    """The parser of a command that is no program."""
    module = command.load()
    parser = argparse.ArgumentParser(prog=prog, description=module.__doc__)
    module.add_arguments(parser)
    return parser


def _run(command: Command, arguments: list[str], prog: str) -> int:
    if not command.is_program:
        code: int = command.load().run(command_parser(command, prog).parse_args(arguments))
        return code
    try:
        code = command.load().main(arguments, prog)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in OPTIONAL:
            raise
        name = OPTIONAL[package]
        print(f"{prog} needs {package}, which is not installed: pip install 'barnabas[{name}]'", file=sys.stderr)
        return 1
    return code


def root_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of what stands before the command."""
    width = max(map(len, COMMANDS))
    lines = [f"example:\n  {prog} topics list --bootstrap {BOOTSTRAP_DEFAULT}"]
    for title, section in SECTIONS.items():
        lines += ["", f"{title}:", *(f"  {command.name:{width}}  {command.help}" for command in section)]
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [--bootstrap HOST:PORT,…] [--json] COMMAND …",
        description=f"Work with Barnabas, and with any Kafka cluster.\n`{prog} COMMAND --help` explains a command.",
        epilog="\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", help=output.BOOTSTRAP_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and end")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.PARSER, help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  every start would pay for it

        try:
            number = version("barnabas")
        except PackageNotFoundError:
            number = "(not installed)"
        print(f"barnabas {number}, Python {platform.python_version()}")
        parser.exit()
