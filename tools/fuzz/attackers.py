"""Clients that mean no good. Each connects, sends requests, most of them damaged, and leaves in a way of its own."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from contextlib import suppress

from tools.fuzz.mutations import mutated, mutated_line
from tools.fuzz.requests import Requests
from tools.fuzz.victim import Victim

ANSWER_SECONDS = 0.02
LARGE_SECONDS = 2.0
_LARGE = 0.1
"""How often a request is valid and has very many elements."""
_BURSTS = (1, 1, 1, 1, 1, 1, 1, 3, 30, 300)
"""How many requests are sent at a time. Most are damaged; large ones may be begun together."""
_RESET = struct.pack("ii", 1, 0)
_KEPT_SENDS = 200
_SHOWN_BYTES = 60
_SHOWN_SENDS = 3


class Attacker(threading.Thread):
    """Sends garbage until `end` is called or the broker no longer listens."""

    def __init__(self, number: int, seed: str, victim: Victim, topic_ids: tuple[bytes, ...]) -> None:
        super().__init__(name=f"attacker {number}", daemon=True)
        self._rng = random.Random(f"{seed} attacker {number}")
        self._requests = Requests(self._rng, topic_ids)
        self._addresses = victim.addresses
        self._speaks_json = False
        self._ending = threading.Event()
        self.counts: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._sends: deque[tuple[float, bytes, int]] = deque(maxlen=_KEPT_SENDS)
        """What was sent last: when, how it begins, and how many bytes it has."""

    def sent_before(self, moment: float) -> list[str]:
        """The last requests that were sent before this time."""
        sends = [one for one in list(self._sends) if one[0] <= moment][-_SHOWN_SENDS:]
        return [f"{at - moment:+.3f} s: {size} bytes: {begins.hex()}" for at, begins, size in sends]

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                self._attack()
        except OSError as error:  # only where no broker listens: an error on a connection is handled there
            self.failure = error

    def _attack(self) -> None:
        rng = self._rng
        client = socket.create_connection(rng.choice(self._addresses), timeout=10)
        self.counts["connections"] += 1
        with client, suppress(OSError):
            client.settimeout(ANSWER_SECONDS)
            for what in range(rng.choice((1, 1, 2, 5, 20))):
                if what == 0:
                    self._speaks_json = rng.random() < 0.15
                if rng.random() < _LARGE and not self._speaks_json:
                    self._send_large(client)
                    continue
                burst = rng.choice(_BURSTS)
                self._send(client, b"".join(self._garbage() for _ in range(burst)))
                if rng.random() < 0.5:
                    self._take_answer(client)
            match rng.randrange(4):
                case 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                case 1:
                    client.shutdown(socket.SHUT_WR)
                    self._take_answer(client)

    def _send_large(self, client: socket.socket) -> None:
        """A valid request with very many elements; some attackers wait for its answer, or for its end."""
        self.counts["large"] += 1
        client.settimeout(LARGE_SECONDS)
        self._send(client, self._requests.large())
        client.settimeout(LARGE_SECONDS if self._rng.random() < 0.5 else ANSWER_SECONDS)
        self._take_answer(client)
        client.settimeout(ANSWER_SECONDS)

    def _send(self, client: socket.socket, data: bytes) -> None:
        self._sends.append((time.time(), data[:_SHOWN_BYTES], len(data)))
        client.sendall(data)

    def _take_answer(self, client: socket.socket) -> None:
        """Read the answer if it arrives at once."""
        with suppress(TimeoutError):
            self.counts["bytes answered"] += len(client.recv(1 << 16))

    def _garbage(self) -> bytes:
        rng, damaged = self._rng, self._rng.random() < 0.7
        self.counts["requests"] += 1
        self.counts["damaged"] += damaged
        if self._speaks_json:
            line = self._requests.line()
            return mutated_line(rng, line) if damaged else line
        frame = self._requests.frame()
        return mutated(rng, frame) if damaged else frame
