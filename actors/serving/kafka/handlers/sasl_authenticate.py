"""SaslAuthenticate: answered with ILLEGAL_SASL_STATE, as Apache Kafka does on a listener without authentication.

Left out: authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(_call: Call[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
    text = "this port has no authentication; set security.protocol=PLAINTEXT at the client"
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text)
