"""Addresses of brokers, as users write them: `host:port,host,[::1]:port`."""

from __future__ import annotations

PORT_DEFAULT = 9092
BOOTSTRAP_DEFAULT = f"127.0.0.1:{PORT_DEFAULT}"

Address = tuple[str, int]


def addresses(text: str) -> list[Address]:
    """The addresses of a list with commas. Raises ValueError with the one that is malformed."""
    return [_address(one.strip()) for one in text.split(",")]


def _address(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        sound = bool(bracket) and rest[:1] in ("", ":")
    else:
        host, colon, port = text.partition(":")
        sound = True
        if ":" in port:
            raise ValueError(f"{text!r} is no address; write an IPv6 one as [::1]:{PORT_DEFAULT}")
    if not colon:
        port = str(PORT_DEFAULT)
    if not sound or not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is no address; write host:port, such as {BOOTSTRAP_DEFAULT}")
    return host, int(port)


def shown(address: Address) -> str:
    """An address as users write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
