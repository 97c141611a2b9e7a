"""What reaches a port by mistake is named as what it looks like."""

from __future__ import annotations

import ssl

import pytest

from protocol.strangers import LOOKED_AT, look_of


def tls_hello() -> bytes:
    """As this machine's own library begins."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="broker").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (tls_hello(), "TLS"),
        (b"\x80\x2e\x01\x03\x01\x00\x15\x00", "SSL 2"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\xde\xad\xbe\xef", "de ad be ef"),
    ],
)
def test_a_stranger_is_named(sent: bytes, named: str) -> None:
    assert named in look_of(sent[:LOOKED_AT])
