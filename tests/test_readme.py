"""What the README shows with `nc` is what a cluster like that of cluster.toml answers."""

from __future__ import annotations

import json
import re
import shlex
import socket
from pathlib import Path
from typing import Any

from actors.cluster_file.config import load
from actors.harness import Cluster
from tests.actors.json_lines import wait_until_registered

ROOT = Path(__file__).parents[1]
NC = " | nc -N localhost 9092"
VARIES = ("pid", "actors", "timestamp", "topic_id")  # from one run to the next


def transcripts() -> list[tuple[str, list[str]]]:
    """The commands with `nc`, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *printed = part.rstrip().split("\n")
            if command.endswith(NC):
                found.append((command.removesuffix(NC), printed))
    return found


def said(command: str) -> bytes:
    """What an echo or a printf puts into the pipe."""
    program, text = shlex.split(command)
    assert program in ("echo", "printf"), command
    return (text + "\n" if program == "echo" else text.replace("\\n", "\n")).encode()


def answered(address: str, request: bytes) -> list[str]:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client, client.makefile("rb") as lines:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return [line.decode().rstrip("\n") for line in lines]


def without_what_varies(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name in VARIES else without_what_varies(one) for name, one in value.items()}
    return [without_what_varies(one) for one in value] if isinstance(value, list) else value


def test_what_the_readme_shows_is_what_happens() -> None:
    config = load(ROOT / "cluster.toml")
    with Cluster(3, config=config.config, topics=config.topics, log_level="error") as cluster:
        wait_until_registered(cluster)
        first = cluster.bootstrap.split(",")[0]
        assert len(transcripts()) >= 7
        for command, printed in transcripts():
            found = answered(first, said(command))
            shown = [without_what_varies(json.loads(line)) for line in printed]
            assert [without_what_varies(json.loads(line)) for line in found] == shown, f"{command}: {found}"
            assert all(line == json.dumps(json.loads(line), separators=(",", ":")) for line in printed)
