"""`barnabas completion`: what bash proposes with the script that it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.cli import completion
from tools.cli.commands import COMMANDS
from tools.cli.root import main

ASK = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _barnabas; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "barnabas.sh"
    path.write_text(completion.script())
    return path


def proposed(script: Path, line: str) -> list[str]:
    """What bash proposes for the last word of this line."""
    command = ["bash", "-c", ASK, str(script), *line.split(" ")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("barnabas to", ["topics"]),
        ("barnabas topics del", ["delete"]),
        ("barnabas --json topics c", ["create"]),
        ("barnabas --bootstrap localhost:9092 groups re", ["rebalances", "reset"]),
        ("barnabas produce orders --acks ", ["all", "1", "0"]),
        ("barnabas topics create orders --part", ["--partitions"]),
        ("barnabas topics create orders --partitions ", []),
        ("barnabas configs describe t", ["topic"]),
        ("barnabas simulate --", ["--help"]),
        ("barnabas completion z", ["zsh"]),
    ],
)
def test_bash_proposes_what_may_follow(script: Path, line: str, words: list[str]) -> None:
    assert proposed(script, line) == words


def test_bash_proposes_every_command(script: Path) -> None:
    assert {*COMMANDS} <= {*proposed(script, "barnabas ")}


def test_zsh_gets_the_same_script(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == script.read_text()
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.endswith(script.read_text())
