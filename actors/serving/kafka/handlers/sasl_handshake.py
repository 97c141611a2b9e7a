"""SaslHandshake: answered with ILLEGAL_SASL_STATE, as Apache Kafka does on a listener without authentication.

Left out: authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.error_codes import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[SaslHandshakeRequest]) -> SaslHandshakeResponse:
    call.serving.says.warn(
        "sasl",
        "connection: %s wants to authenticate with SASL, which is not spoken here; set security.protocol=PLAINTEXT at "
        "the client", call.connection.peer,
    )  # fmt: skip
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
