"""Other protocols that reach a broker's port by mistake, recognised by the first bytes of a connection."""

from __future__ import annotations

LOOKED_AT = 8
"""The number of bytes that are enough."""
_TLS_HANDSHAKE, _TLS_MAJOR, _SSL2_HELLO = 0x16, 3, 1
_HTTP = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ", b"PRI * HT")
_OTHERS = {b"SSH-": "SSH", b"AMQP": "AMQP", b"\x10": "MQTT"}


def look_of(first: bytes) -> str:
    """What a stream of another protocol looks like, and what to do about it."""
    return known_look_of(first) or f"is nothing that is spoken here; it begins with the bytes {first.hex(' ')}"


def known_look_of(first: bytes) -> str | None:
    """The same; None if it looks like no protocol that is known here."""
    if len(first) >= 2 and first[0] == _TLS_HANDSHAKE and first[1] == _TLS_MAJOR:
        return "looks like TLS, which is not spoken here; set security.protocol=PLAINTEXT at the client"
    if len(first) >= 3 and first[0] & 0x80 and first[2] == _SSL2_HELLO:
        return "looks like SSL 2, which is not spoken here; set security.protocol=PLAINTEXT at the client"
    if any(first.startswith(method[:LOOKED_AT]) for method in _HTTP):
        return "looks like HTTP; this port takes Kafka's protocol, and JSON in lines"
    for start, name in _OTHERS.items():
        if first.startswith(start):
            return f"looks like {name}; this port takes Kafka's protocol, and JSON in lines"
    return None
