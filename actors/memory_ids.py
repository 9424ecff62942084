"""Ids of memories that do not depend on the run in which they are made."""

from __future__ import annotations

import uuid
from typing import Final

_MS_MAX: Final = (1 << 48) - 1


def made_uuid7(milliseconds: int, digest: bytes) -> str:
    """A UUIDv7 of a time (since 1970; what no UUID can say is its nearest) and at least 10 bytes of
    a digest in the place of chance.
    """
    time = min(max(milliseconds, 0), _MS_MAX).to_bytes(6, "big")
    packed = bytearray(time + digest[:10])
    packed[6] = packed[6] & 0x0F | 0x70
    packed[8] = packed[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(packed)))
