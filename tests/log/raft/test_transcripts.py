"""Scenarios as plain text: commands, and below each what happened. `pytest --rewrite-transcripts` writes them again.

propose 1            commands, one a line; what follows, indented, is what they caused
  1→2 Append(…)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from log.raft.leader import Leader
from log.raft.messages import Append, Message
from protocol.records.batches import parse_batches
from tests.log.raft.groups import Group

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


class Scenario:
    """Runs commands on a group and writes down what they cause."""

    def __init__(self) -> None:
        self._group: Group
        self._said = 0

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        arguments = [int(word) if word.isdigit() else word for word in words]
        output: list[str] = getattr(self, f"do_{command}")(*arguments) or []
        return output

    def do_group(self, size: int) -> list[str]:
        self._group = Group(1, size)
        self._said = len(self._group.trace)
        for a in self._group.brokers:
            for b in self._group.brokers:
                if a < b:
                    self._group.connect(a, b)
        return self._news()

    def do_elect(self, broker: int) -> list[str]:
        """Let time pass until this one stands for election, and everything settle."""
        self._group.now += 1
        self._group.tick(broker)
        return self._pump()

    def do_time(self, milliseconds: int) -> None:
        self._group.now += milliseconds / 1000

    def do_tick(self, broker: int) -> list[str]:
        self._group.tick(broker)
        return self._news()

    def do_propose(self, broker: int, count: int = 1) -> list[str]:
        for _ in range(count):
            self._group.propose(broker)
        return self._news()

    def do_settle(self) -> list[str]:
        return self._pump()

    def do_cut(self, a: int, b: int) -> list[str]:
        self._group.disconnect(a, b)
        return self._news()

    def do_connect(self, a: int, b: int) -> list[str]:
        self._group.connect(a, b)
        return self._news()

    def do_kill(self, broker: int) -> list[str]:
        self._group.kill(broker)
        return self._news()

    def do_start(self, broker: int) -> list[str]:
        self._group.start(broker)
        return self._news()

    def do_beat(self, broker: int) -> None:
        self._group.beat(broker)

    def do_transfer(self, a: int, b: int) -> list[str]:
        self._group.act(a, lambda member: member.transfer_to(b, self._group.now))
        return self._pump()

    def do_retire(self, broker: int) -> list[str]:
        self._group.act(broker, lambda member: member.retire(self._group.now))
        return self._pump()

    def do_status(self) -> list[str]:
        return [
            f"{broker}: {type(member.node.role).__name__} term={member.node.term} end={member.log.end_offset} "
            f"watermark={member.node.watermark} epochs={[(e.epoch, e.start_offset) for e in member.log.epochs]}"
            + (f" match={ {b: p.match for b, p in role.progress.items()} }" if isinstance(role, Leader) else "")
            for broker, member in sorted(self._group.members.items())
            for role in [member.node.role]
        ]

    def _pump(self) -> list[str]:
        group, output = self._group, self._news()
        busy = True
        while busy:
            busy = False
            for broker in sorted(group.members):
                while group.saving[broker]:
                    group.save_vote(broker)
                    busy = True
            for a, b in sorted(group.channels):
                while group.channels.get((a, b)):
                    output.append(f"{a}→{b} {_shown(group.channels[a, b][0])}")
                    group.deliver(a, b)
                    output += self._news()
                    busy = True
        return output

    def _news(self) -> list[str]:
        """Role changes since the last look; the rest of the trace is said by the commands themselves."""
        news = [line.partition(" ")[2] for line in self._group.trace[self._said :]]
        self._said = len(self._group.trace)
        return [line for line in news if " is " in line or line.startswith("start")]


def _shown(message: Message) -> str:
    if isinstance(message, Append) and len(message.batches):
        headers = parse_batches(message.batches).headers
        held = f"{headers[0].base_offset}..{headers[-1].last_offset}"
        return f"Append(term={message.term} after=({message.prev_end}, {message.prev_epoch}) batches={held})"
    if isinstance(message, Append):
        return f"Append(term={message.term} after=({message.prev_end}, {message.prev_epoch}))"
    return repr(message)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    scenario, lines = Scenario(), []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {output}" for output in scenario.run(line)]
    written = "\n".join(lines) + "\n"
    if request.config.getoption("--rewrite-transcripts"):
        path.write_text(written, encoding="utf-8")
    assert written == path.read_text(encoding="utf-8")
