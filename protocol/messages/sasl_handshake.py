"""SaslHandshake: the mechanism by which a client will authenticate."""

from __future__ import annotations

from protocol.apis import SASL_HANDSHAKE
from protocol.schema.declaration import Int16, String, field, message


@message(SASL_HANDSHAKE.versions, SASL_HANDSHAKE.flexible)
class SaslHandshakeRequest:
    mechanism: String = ""


@message(SASL_HANDSHAKE.versions, SASL_HANDSHAKE.flexible)
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[String] = field(factory=list)
