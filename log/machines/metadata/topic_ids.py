"""A topic's id: 16 bytes as it travels, 22 letters as it is written."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache


@lru_cache(maxsize=10_000)
def id_bytes(topic_id: str) -> bytes:
    """A topic's id as it travels."""
    return urlsafe_b64decode(topic_id + "==")


@lru_cache(maxsize=10_000)
def id_text(topic_id: bytes) -> str:
    """A topic's id as it is written."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
