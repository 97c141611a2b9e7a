"""ApiVersions: the APIs and their versions, and the features: transactions in their second version (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

TRANSACTION_VERSION = ("transaction.version", 2)
MIN_ZERO_FROM = 4
"""Older clients reject a feature whose lowest version is 0, so responses to them do not list it."""


def handle(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    name, level = TRANSACTION_VERSION
    return ApiVersionsResponse(
        api_keys=call.connection.protocol.advertised(),
        supported_features=[SupportedFeatureKey(name=name, min_version=0, max_version=level)]
        if call.version >= MIN_ZERO_FROM
        else [],
        finalized_features_epoch=0,
        finalized_features=[FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)],
    )
