"""The page docs/reference/commands.md: every command, its arguments, and what it prints with --json."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator

from tools.cli.commands import SECTIONS, Command
from tools.cli.root import command_parser
from tools.cli.shapes import shape_of

_PROG = "barnabas"
_HEAD = """\
# Commands

Made by `python -m tools.docs commands` from `tools/cli/`; edit that. In a checkout `python -m tools.cli` is the same as
`barnabas`.

- `--bootstrap HOST:PORT,…` stands before the command or after it. Without it the variable `BARNABAS_BOOTSTRAP` counts,
  and then 127.0.0.1:9092. `chaos` alone ignores the variable: it starts a cluster of its own unless it is given one.
- In a terminal the output is tables and colours, which fit its width. In a pipe it is lines, with tabs between the
  columns and without a heading.
- With `--json`, before the command or after it, the output is one value, or a line for each record.
- The exit code is 0 if all is done, 1 if it failed, 2 for wrong usage, 130 after Ctrl-C.

An error is one line on stderr and, with `--json`, also a value on stdout. Its code is null if no broker has refused.

    {"error": {"code": 3, "name": "UNKNOWN_TOPIC_OR_PARTITION", "message": "there is no topic 'orders'"}}
"""


def page() -> str:
    lines = [_HEAD.rstrip()]
    for title, section in SECTIONS.items():
        lines += ["", f"## {_capital(title)}"]
        for command in section:
            lines += ["", f"### `{command.name}`", "", *_told(command)]
    return "\n".join(lines) + "\n"


def _told(command: Command) -> Iterator[str]:
    if command.is_program:
        yield f"{_capital(command.help)}. `{_PROG} {command.name} --help` lists its options."
        return
    yield from inspect.cleandoc(command.load().__doc__).splitlines()
    yield from _usage(command.name, command_parser(command, command.name))


def _usage(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """How a command is called, or each of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices:
                yield from _usage(f"{name} {inner}", action.choices[inner])
            return
    own = [one for one in parser._actions if one.dest not in ("help", "bootstrap", "json")]
    terms = {one: _term(one) for one in own}
    words = [term for one, term in terms.items() if not one.option_strings or one.required]
    yield ""
    if " " in name:
        yield from (f"#### `{name}`", "", f"{parser.description}", "")
    yield " ".join(["   ", _PROG, name, *words, *(["[options]"] if len(words) < len(own) else [])])
    told = [
        (term, (one.help or "") % {"default": one.default})
        for one, term in terms.items()
        if one.help or one.option_strings
    ]
    if told:
        yield from ("", "| argument | meaning |", "|---|---|")
    for term, text in told:
        yield f"| `{term}` | {_capital(text)} |"
    shape = shape_of(name)
    if shape is not None:
        for line in ("", *shape.help().splitlines()):
            is_title = line.startswith(("with", "and"))
            yield from ([f"{_capital(line)}", ""] if is_title else [f"    {line.strip()}" if line else ""])


def _term(action: argparse.Action) -> str:
    value = "/".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest.upper())
    if action.option_strings:
        return action.option_strings[0] if action.nargs == 0 else f"{action.option_strings[0]} {value}"
    return {"?": f"[{value}]", "+": f"{value} …"}.get(str(action.nargs), value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
