"""A terminal in which a page is done: one shell, in a directory of its own, on ports of its own."""

from __future__ import annotations

import os
import pty
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from importlib.metadata import entry_points
from pathlib import Path

import psutil

from actors.harness import Cluster
from tests.docs.page import Fence, Step
from tests.docs.shown import is_shown, plain
from tools.cli import root
from tools.testing import plugin

ROOT = Path(__file__).parents[2]
PORTS = ("9092", "9093", "9094")
"""The ports of the pages, and of cluster.toml. Each page gets others, in commands, programs and files alike."""
HOME = "/home/ada"
"""What pages call the directory in which they are done."""
SECONDS_MAX = 120.0
LONG_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 30.0
STAYS = ("make cluster", "python -m actors.cluster cluster.toml", "barnabas up")
"""Commands that keep their terminal. The reader types on in another one."""
_AS_TYPED = {
    re.compile(r"^make cluster$"): "python -m actors.cluster cluster.toml",  # which it does, once all is installed
    re.compile(r"^barnabas up\b(?!.*--(port|file))"): f"barnabas up --port {PORTS[0]}",  # its default
}
"""Commands that are typed in another way than pages have them."""
_DONE = re.compile(r"\n?@@done (\d+)@@\n")


class PageFailed(Exception):
    """A command of a page did not do what the page says."""


def free_ports() -> dict[str, str]:
    """Free ports in place of the pages' ports; they follow each other, as those do."""
    while True:
        first = random.randrange(20_000, 32_000)  # where no system takes the ports of outgoing connections from
        with ExitStack() as sockets, suppress(OSError):
            for port in range(first, first + len(PORTS)):
                sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            return {page: str(first + number) for number, page in enumerate(PORTS)}


def ports_of(cluster: Cluster) -> dict[str, str]:
    return dict(zip(PORTS, [one.rpartition(":")[2] for one in cluster.bootstrap.split(",")], strict=True))


def _pytest_options() -> str:
    """No plugin that warns of what a page does not have; and ours, where Barnabas is here without its entry points."""
    is_installed = any(one.name == "barnabas" for one in entry_points(group="pytest11"))
    return "-p no:asyncio" if is_installed else f"-p no:asyncio -p {plugin.__name__}"


class Terminal:
    def __init__(self, directory: Path, ports: Mapping[str, str], *, long: bool) -> None:
        self._directory = directory
        self._seconds_max = LONG_SECONDS_MAX if long else SECONDS_MAX
        self._ports = ports
        self._programs = 0
        self._output = ""
        self._jobs = 0
        bin_directory = directory / ".bin"
        bin_directory.mkdir()
        programs = {
            "nc": f"#!{sys.executable} -SE\n{(Path(__file__).parent / 'nc.py').read_text(encoding='utf-8')}",
            "barnabas": f"#!{sys.executable}\nimport sys\nfrom {root.__name__} import main\nsys.exit(main())\n",
        }
        for name, text in programs.items():
            (bin_directory / name).write_text(text, encoding="utf-8")
            (bin_directory / name).chmod(0o755)
        self._write("cluster.toml", (ROOT / "cluster.toml").read_text(encoding="utf-8"))
        self._write(".venv/bin/activate", "")  # PATH has the environment's commands already
        self._screen, screen = pty.openpty()
        self._shell = subprocess.Popen(
            [shutil.which("bash") or "bash", "--norc", "--noprofile"],
            cwd=directory,
            env={
                "PATH": os.pathsep.join([str(bin_directory), str(Path(sys.executable).parent), os.environ["PATH"]]),
                "HOME": str(directory),
                "PYTHONPATH": os.pathsep.join(
                    [str(ROOT), str(ROOT / "tools" / "wheel")]
                ),  # as an editable install has it
                "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
                "PYTEST_ADDOPTS": _pytest_options(),
                "BARNABAS_BOOTSTRAP": f"127.0.0.1:{ports[PORTS[0]]}",
                "TERM": "dumb",
                "COLUMNS": "120",
                "TZ": "UTC",
                "LC_ALL": "C.UTF-8",
            },
            stdin=subprocess.PIPE,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            bufsize=0,
        )
        os.close(screen)
        self._type("set -m")  # each job has a process group, to which an interrupt can be sent

    def do(self, step: Fence | Step) -> list[str]:
        """Write a file, or run a step and give what it printed; raises if the page shows something else."""
        if isinstance(step, Fence):
            self._write(step.file, step.text)
            return []
        command, exit_code = self._command(step)
        if step.printed[-1:] == ["^C"]:
            return self._interrupted(step, command)
        if command.startswith(STAYS) or command.endswith(" &"):
            return self._left_running(step, command)
        self._type(f"{{ {command}\n}} </dev/null; printf '\\n@@done %d@@\\n' $?")
        found = self._until_done(step)
        printed, self._output = self._output[: found.start()], self._output[found.end() :]
        lines = self._as_in_page(printed)
        if int(found[1]) != exit_code:
            self._fail(step, f"exit code {found[1]}", lines)
        return lines

    def close(self) -> None:
        """End the shell with everything that it started."""
        assert self._shell.stdin is not None
        self._type("for job in $(jobs -p); do kill -INT -- -$job; done; wait")
        self._shell.stdin.close()
        try:
            self._shell.wait(STOP_SECONDS_MAX)
        finally:
            for process in psutil.process_iter():  # such as a `tail -f` that nobody reads
                with suppress(ProcessLookupError, psutil.NoSuchProcess):
                    if os.getsid(process.pid) == self._shell.pid:
                        process.kill()
            self._shell.wait()
            os.close(self._screen)

    def _command(self, step: Step) -> tuple[str, int]:
        """What is typed into the shell, and the exit code that the page speaks of."""
        if step.program:
            self._programs += 1
            name = f"program-{self._programs}.py"
            self._write(name, step.program)
            return f"python {name} 2>{name}.stderr || {{ cat {name}.stderr; false; }}", 0
        command, _, comment = step.command.partition("  #")
        command = command.strip()
        code = re.search(r"exit code (\d+)", comment)
        for pattern, typed in _AS_TYPED.items():
            command = pattern.sub(typed, command)
        return self._with_ports(command), int(code[1]) if code else 0

    def _left_running(self, step: Step, command: str) -> list[str]:
        """Start a command that goes on, and wait until it has printed what the page shows."""
        file = self._begin(command.removesuffix("&"))
        self._until_shown(step, file, step.printed)
        return step.printed

    def _interrupted(self, step: Step, command: str) -> list[str]:
        file = self._begin(command)
        self._until_shown(step, file, step.printed[:-1])
        self._type("kill -INT -- -$!; wait $!; printf '\\n@@done %d@@\\n' 0")
        found = self._until_done(step)
        self._output = self._output[found.end() :]
        return [*self._as_in_page(file.read_text(encoding="utf-8")), "^C"]

    def _begin(self, command: str) -> Path:
        self._jobs += 1
        file = self._directory / f".job-{self._jobs}"
        file.touch()
        self._type(f"</dev/null >{shlex.quote(str(file))} 2>&1 {command} &")  # the job is the command's own process
        return file

    def _until_shown(self, step: Step, file: Path, shown: list[str]) -> None:
        deadline = time.monotonic() + self._seconds_max
        while True:
            lines = self._as_in_page(file.read_text(encoding="utf-8"))
            if is_shown(lines, [*shown, "…"]):
                return
            if time.monotonic() > deadline:
                self._fail(step, f"not what the page shows within {self._seconds_max:g} s", lines)
            select.select([], [], [], 0.01)

    def _write(self, name: str, text: str) -> None:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._with_ports(text), encoding="utf-8")

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n".encode())

    def _until_done(self, step: Step) -> re.Match[str]:
        """Read what is printed until the shell says that the command has ended."""
        deadline = time.monotonic() + self._seconds_max
        while (match := _DONE.search(self._output)) is None:
            ready, _, _ = select.select([self._screen], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                os.killpg(self._shell.pid, signal.SIGKILL)
                self._fail(step, f"no end within {self._seconds_max:g} s", self._as_in_page(self._output))
            self._output += os.read(self._screen, 65_536).decode(errors="replace").replace("\r\n", "\n")
        return match

    def _with_ports(self, text: str) -> str:
        for page, port in self._ports.items():
            text = re.sub(rf"\b{page}\b", port, text)
        return text

    def _as_in_page(self, text: str) -> list[str]:
        for page, port in self._ports.items():
            text = re.sub(rf"\b{port}\b", page, text)
        lines = plain(text.replace(str(self._directory), HOME))
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        return lines

    def _fail(self, step: Step, what: str, printed: list[str]) -> None:
        told = "\n".join(printed)
        raise PageFailed(f"line {step.line}: {step.command or 'the program'}: {what}\n{told}")
