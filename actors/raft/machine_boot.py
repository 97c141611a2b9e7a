"""Names the boot of the machine: under another one, what was not synced is gone."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACOS_BOOT_ID = "kern.bootsessionuuid"


def machine_boot() -> str:
    """A name that stays the same until the machine is started again, also when it sleeps.

    Where the system has no such name, the time of boot replaces it, to the minute. It is computed with a clock that
    goes on while the machine sleeps; where the system has no such clock, a sleep looks like a boot. That is safe: some
    replicas catch up without need.
    """
    try:
        return _LINUX_BOOT_ID.read_text().strip()
    except OSError:
        pass
    return _sysctl(_MACOS_BOOT_ID) or f"booted {round((time.time() - _seconds_since_boot()) / 60)} min after 1970"


def _seconds_since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux and OpenBSD: sleep included
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _sysctl(name: str) -> str:
    """The text of this name in the kernel of macOS or a BSD; empty elsewhere."""
    ask = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    size = ctypes.c_size_t(0)
    if ask is None or ask(name.encode(), None, ctypes.byref(size), None, 0) != 0:
        return ""
    text = ctypes.create_string_buffer(size.value)
    if ask(name.encode(), text, ctypes.byref(size), None, 0) != 0:
        return ""
    return text.value.decode(errors="replace")
