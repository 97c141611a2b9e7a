"""`barnabas`: how it finds a command, what it takes before and after it, and how it names itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

import actors as brokers
from tools import cli
from tools.cli.commands import COMMANDS, Command
from tools.cli.root import main

ROOT = Path(__file__).parents[3]
CLOSED, OTHER, ENVIRONMENT = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
Ending = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str]) -> Ending:
    """Runs a command; how it ended and what it printed."""

    def run(*arguments: str, prog: str = "barnabas") -> tuple[int, str, str]:
        try:
            code = main(arguments, prog)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        return code, *capsys.readouterr()

    return run


def test_help_lists_every_command_with_what_it_does(ended: Ending) -> None:
    code, out, err = ended("--help")
    assert (code, err) == (0, "")
    for command in COMMANDS.values():
        assert re.search(rf"^  {command.name} +{re.escape(command.help)}$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", [command.name for command in COMMANDS.values() if not command.is_program])
def test_every_command_explains_itself_under_the_name_that_was_called(ended: Ending, name: str) -> None:
    for prog in ("barnabas", f"python -m {cli.__name__}"):
        code, out, _ = ended(name, "--help", prog=prog)
        assert code == 0
        assert out.startswith(f"usage: {prog} {name} ")


@pytest.mark.slow  # their imports
@pytest.mark.parametrize("command", [command for command in COMMANDS.values() if command.is_program])
def test_a_program_explains_itself_under_either_name(ended: Ending, command: Command) -> None:
    code, out, _ = ended(command.name, "--help")
    assert code == 0
    assert out.startswith(f"usage: barnabas {command.name} ")
    module = command.load()
    assert signature(module.main).parameters["prog"].default == f"python -m {module.__package__}"


def test_version(ended: Ending) -> None:
    code, out, _ = ended("--version")
    assert code == 0
    assert re.fullmatch(r"barnabas \S+, Python 3\.\S+\n", out)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("topcis", "list"), "there is no command 'topcis'; did you mean 'topics'?"),
        (("xyz",), "there is no command 'xyz'; barnabas --help lists all"),
        ((), "the following arguments are required: COMMAND"),
        (("--bootstrap", CLOSED), "the following arguments are required: COMMAND"),
        (("--bootstrap", CLOSED, "dump-log", "x"), "unrecognized arguments: --bootstrap=127.0.0.1:1"),
    ],
)
def test_wrong_usage_is_explained(ended: Ending, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = ended(*arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].endswith(told)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("brokers",), ENVIRONMENT),
        (("topics", "list"), ENVIRONMENT),
        (("groups", "list"), ENVIRONMENT),
        (("consume", "orders"), ENVIRONMENT),
        (("produce", "orders"), ENVIRONMENT),
        (("--bootstrap", CLOSED, "brokers"), CLOSED),
        (("--bootstrap", CLOSED, "topics", "list"), CLOSED),
        (("topics", "--bootstrap", CLOSED, "list"), CLOSED),
        (("topics", "list", f"--bootstrap={CLOSED}"), CLOSED),
        (("--bootstrap", OTHER, "topics", "list", "--bootstrap", CLOSED), CLOSED),
        (("--bootstrap", OTHER, "--json", "recover", "--bootstrap", CLOSED), CLOSED),
    ],
    ids=" ".join,
)
def test_bootstrap_is_given_before_or_after_the_command_or_by_the_environment(
    ended: Ending, arguments: tuple[str, ...], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", ENVIRONMENT)
    code, _, err = ended(*arguments)
    assert code == 1
    assert err.startswith(f"nobody answers at {asked} (Connection refused); ")


def test_a_wrong_address_is_told_with_where_it_came_from(ended: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", "host:kafka")
    code, _, err = ended("brokers")
    assert code == 2
    assert "argument --bootstrap: BARNABAS_BOOTSTRAP: 'host:kafka' is no address" in err
    assert "argument --bootstrap: 'x:y' is no address" in ended("brokers", "--bootstrap", "x:y")[2]
    assert ended("brokers", "--bootstrap", CLOSED)[0] == 1, "an option wins"


def test_a_start_loads_no_command_but_its_own() -> None:
    program = (
        f"import sys; from {cli.__name__}.root import main; main(['--bootstrap', '127.0.0.1:1', 'brokers']);"
        f"print(sorted(name for name in sys.modules if name in ('rich', 'trio', '{brokers.__name__}')"
        f" or name.startswith('{cli.__name__}.') and name.count('.') == {cli.__name__.count('.') + 2}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"['{cli.__name__}.administration.brokers']\n"


def test_a_module_that_is_run_names_itself_so() -> None:
    command = [sys.executable, "-m", cli.__name__, "bench", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: python -m {cli.__name__} bench ")


def test_a_program_without_its_package_says_how_to_install_it(ended: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> SimpleNamespace:
        def main(*_: object) -> NoReturn:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        return SimpleNamespace(main=main)

    monkeypatch.setattr(Command, "load", lambda _: missing("confluent_kafka.admin"))
    told = "barnabas chaos needs confluent_kafka, which is not installed: pip install 'barnabas[test]'\n"
    assert ended("chaos") == (1, "", told)
    monkeypatch.setattr(Command, "load", lambda _: missing("tools.nowhere"))
    with pytest.raises(ModuleNotFoundError):
        main(["chaos"])
