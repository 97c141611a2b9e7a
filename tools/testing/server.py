"""The process of a shared cluster, started by shared.py. It ends on request, on SIGTERM, and when its owner has ended.

The owner is the process of pytest, with xdist the controller. One line of JSON on the standard output says that the
cluster can be used, and where.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

from actors.harness import Cluster, HarnessError
from tools.testing.control import answer
from tools.testing.local import SharedLocalBackend

LOOK_SECONDS = 0.25
"""How often the owner is looked for, where the system cannot tell of its end."""


def main() -> None:
    given = json.loads(sys.argv[1])
    os.setsid()  # Ctrl-C is for the owner
    signal.signal(signal.SIGTERM, _exit)
    directory = Path(tempfile.mkdtemp(prefix="barnabas-"))
    try:
        _serve(
            directory,
            given["owner"],
            Cluster(given["brokers"], name="shared", config=given["settings"], log_level="info"),
        )
    except HarnessError as error:
        sys.exit(str(error))
    finally:
        shutil.rmtree(directory)


def _serve(directory: Path, owner: int, cluster: Cluster) -> None:
    stop_read, stop_write = os.pipe()
    path = directory / "control"
    with socket.socket(socket.AF_UNIX) as listener, cluster:
        backend = SharedLocalBackend(cluster)

        def stop() -> NoReturn:
            os.write(stop_write, b"!")
            threading.Event().wait()  # the end of the connection, with this process, is the answer
            raise AssertionError

        operations = {one.__name__: one for one in (*backend.operations, stop)}
        listener.bind(str(path))
        listener.listen(128)
        gc.freeze()  # imported objects stay alive: leave them out of collections
        print(json.dumps({"pid": os.getpid(), "path": str(path), "bootstrap": cluster.bootstrap}), flush=True)
        over = [stop_read, *_end_of(owner)]
        watched: list[Any] = [listener, *over]
        while True:
            readable, _, _ = select.select(watched, [], [], LOOK_SECONDS if len(over) == 1 else None)
            if not {*over}.isdisjoint(readable) or not _lives(owner):
                return
            if listener in readable:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection, operations), daemon=True).start()


def _end_of(process: int) -> list[int]:
    """A descriptor that can be read once this process has ended, if the system has that."""
    if not (hasattr(os, "pidfd_open") and _lives(process)):
        return []
    return [os.pidfd_open(process)]


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _exit(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
