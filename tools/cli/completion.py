"""Print a script that completes commands, options and choices in bash or zsh:  source <(barnabas completion bash)

The script knows all words itself: completing starts no Python. Files are completed where no word is known.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from tools.cli import output
from tools.cli.commands import COMMANDS
from tools.cli.root import command_parser, root_parser

_NAME = "barnabas"
# `path` and `words` have meanings of their own in zsh.
_SCRIPT = """\
_{name}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} place= known= at
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$place:${{COMP_WORDS[at]}}" in
{steps}
        esac
    done
    case "$place:$previous" in
{values}
        *) case "$place" in
{words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$known" -- "$current"))
}}
complete -o default -F _{name} {name}
"""
_ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"


class Place(NamedTuple):
    """A place in a command line, such as behind `topics list`."""

    path: str
    words: list[str]
    values: dict[str, list[str]]
    """The choices of each option that takes a value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_example(parser, "source <(%(prog)s bash)")
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(options: argparse.Namespace) -> int:
    print((_ZSH if options.shell == "zsh" else "") + script(), end="")
    return 0


def script() -> str:
    found = list(places())
    steps = [f'"{one.path.rpartition("/")[0]}:{one.path.rpartition("/")[2]}") place={one.path} ;;' for one in found[1:]]
    values = [
        f'"{one.path}:{option}") known="{" ".join(choices)}" ;;'
        for one in found
        for option, choices in one.values.items()
    ]
    words = [f'"{one.path}") known="{" ".join(one.words)}" ;;' for one in found]
    indent = "\n".join
    return _SCRIPT.format(
        name=_NAME,
        steps=indent(" " * 12 + step for step in steps),
        values=indent(" " * 8 + value for value in values),
        words=indent(" " * 12 + word for word in words),
    )


def places() -> Iterator[Place]:
    """Every place, the root first, and each before the places behind it."""
    yield _place("", root_parser(_NAME), list(COMMANDS))
    for command in COMMANDS.values():
        if command.is_program:  # its parser is its own
            yield Place(command.name, ["--help"], {})
        else:
            yield from _places(command.name, command_parser(command, f"{_NAME} {command.name}"))


def _places(path: str, parser: argparse.ArgumentParser) -> Iterator[Place]:
    actions: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions = action.choices
    yield _place(path, parser, list(actions))
    for name, inner in actions.items():
        yield from _places(f"{path}/{name}", inner)


def _place(path: str, parser: argparse.ArgumentParser, words: list[str]) -> Place:
    values: dict[str, list[str]] = {}
    for action in parser._actions:
        choices = [] if action.choices is None else [str(one) for one in action.choices]
        words += action.option_strings or ([] if isinstance(action, argparse._SubParsersAction) else choices)
        if action.nargs != 0:
            values |= dict.fromkeys(action.option_strings, choices)
    return Place(path, words, values)
