"""The links of a node: every node listens on an AF_UNIX path, and of each pair the node with the higher id dials.

The paths lie in one short directory that the launcher makes (a path may have 107 bytes at most). A node dials for ever,
with back-off: a peer that is dead, not started yet or cut off is dialled again. `cut` and `heal` break and
mend single links on purpose, for tests.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.runtime.address import LAUNCHER_ID, name_of
from actors.runtime.errors import FrameError, HandshakeRefused
from actors.runtime.links.socket_transport import Hello, run_link

if TYPE_CHECKING:
    from actors.runtime.node import Node

_DIAL_SECONDS = 0.005
_DIAL_SECONDS_MAX = 0.03  # dialling in vain costs 50 µs; a longer wait would show when a cluster starts
Welcome = Callable[[Hello], None]

_PATH_BYTES_MAX = 103  # macOS; Linux allows 107


class Peering:
    """The links of one node: keeps one to every peer for as long as `run` runs."""

    def __init__(self, node: Node, cluster: str, directory: Path, peers: Iterable[int]) -> None:
        self._node = node
        self._directory = directory
        self._hello = Hello(cluster, node.broker, node.incarnation)
        self._peers = frozenset(peers) - {node.broker}
        self._cut: set[int] = set()
        self._said: dict[int | None, str] = {}
        self._healed = trio.Event()
        for path in map(self.path_of, sorted({node.broker, *self._peers})):
            if len(os.fsencode(path)) > _PATH_BYTES_MAX:
                raise ValueError(f"{path} is too long for a socket: {_PATH_BYTES_MAX} bytes are allowed")

    def path_of(self, broker: int) -> Path:
        return self._directory / ("launcher.sock" if broker == LAUNCHER_ID else f"{broker}.sock")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and dial until cancelled, and remove the socket file then."""
        path = self.path_of(self._node.broker)
        path.unlink(missing_ok=True)  # of an earlier life of this broker that was killed
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.setblocking(False)
            listener.bind(os.fspath(path))
            listener.listen(64)
            try:
                async with trio.open_nursery() as nursery:
                    for peer in sorted(self._peers):
                        if peer < self._node.broker:
                            nursery.start_soon(self._dial_for_ever, peer)
                    task_status.started()
                    await self._accept(trio.socket.from_stdlib_socket(listener), nursery)
            finally:
                path.unlink(missing_ok=True)

    def cut(self, peer: int) -> None:
        """Break the link to `peer` and allow no new one."""
        self._cut.add(peer)
        link = self._node.links.get(peer)
        if link is not None:
            link.lose("cut")

    def heal(self) -> None:
        """Allow every link again."""
        self._cut.clear()
        self._healed.set()
        self._healed = trio.Event()

    async def _accept(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        while True:
            try:
                accepted, _ = await listener.accept()
            except OSError as error:  # no descriptor or no memory now: the peer dials again
                self._node.log.error("link: cannot accept a peer: %s", error)
                await trio.sleep(_DIAL_SECONDS_MAX)
                continue
            nursery.start_soon(self._serve, accepted)

    async def _serve(self, accepted: trio.socket.SocketType) -> None:
        with socket.socket(fileno=accepted.detach()) as sock:
            await self._run_link(sock, self._welcome_any)

    async def _dial_for_ever(self, peer: int) -> None:
        backoff_s = _DIAL_SECONDS
        while True:
            if peer in self._cut:
                await self._healed.wait()
                continue
            try:
                if await self._dial(peer):
                    backoff_s = _DIAL_SECONDS
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                pass  # not started yet, dead, or its backlog is full: dial again
            except OSError as error:  # no descriptor or no memory now: dial again
                self._say_once(peer, f"cannot dial {name_of(peer)}: {error}")
            await trio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _DIAL_SECONDS_MAX)

    async def _dial(self, peer: int) -> bool:
        """True if a link came of it, and stood for a while."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            sock.connect(os.fspath(self.path_of(peer)))
            return await self._run_link(sock, lambda hello: self._welcome_one(hello, peer))

    async def _run_link(self, sock: socket.socket, welcome: Welcome) -> bool:
        """True if the link stood for a while."""
        try:
            await run_link(self._node, sock, self._hello, welcome)
        except OSError as error:
            self._node.log.info("link: a peer died in the handshake: %s", error)  # and will be dialled again
            return False
        except (FrameError, HandshakeRefused) as error:
            self._say_once(None, f"no handshake: {error}")
            return False
        self._said.clear()
        return True

    def _say_once(self, peer: int | None, text: str) -> None:
        """Log each reason once: the node goes on dialling for ever."""
        if self._said.get(peer) != text:
            self._said[peer] = text
            self._node.log.warning("link: %s", text)

    def _welcome_any(self, hello: Hello) -> None:
        if hello.broker not in self._peers:
            raise HandshakeRefused(f"broker {hello.broker} is not in this cluster's file")
        self._welcome_one(hello, hello.broker)

    def _welcome_one(self, hello: Hello, peer: int) -> None:
        if hello.cluster != self._hello.cluster:
            raise HandshakeRefused(
                f"broker {hello.broker} is of cluster {hello.cluster!r}, not {self._hello.cluster!r}"
            )
        if hello.broker != peer:
            raise HandshakeRefused(f"broker {peer} was expected, broker {hello.broker} answered")
        if peer in self._cut:
            raise HandshakeRefused(f"the link between {self._node.broker} and {peer} is cut")
