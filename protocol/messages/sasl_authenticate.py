"""SaslAuthenticate: one exchange of a SASL mechanism."""

from __future__ import annotations

from protocol.apis import SASL_AUTHENTICATE
from protocol.schema.declaration import Bytes, Int16, Int64, String, field, message


@message(SASL_AUTHENTICATE.versions, SASL_AUTHENTICATE.flexible)
class SaslAuthenticateRequest:
    auth_bytes: Bytes = b""


@message(SASL_AUTHENTICATE.versions, SASL_AUTHENTICATE.flexible)
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)
