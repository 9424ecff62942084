"""What every frame is made of; see ``messages.py`` for what they say."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

SYNC_PROCESS, SYNC_DISK, SYNC_REPLICA = 0, 1, 2

# What the fields of a record header hold. A frame with other numbers is none.
Producer = Annotated[int, Meta(ge=0)]  # msgpack has none above 64 bits
ProducerSeq = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
Tokens = Annotated[int, Meta(ge=0, le=2**53)]


class Measured(Struct, array_like=True, frozen=True):
    """What an owner says of its own work: median and 99th percentile of its newest syncs, 0: none;
    the last thing that went wrong since its process began, ``error_at``: microseconds UTC.
    """

    sync_p50_us: int = 0
    sync_p99_us: int = 0
    error: str | None = None
    error_at: int = 0


class Request(Struct, array_like=True, tag_field="t"):
    id: int


class Reply(Struct, array_like=True, tag_field="t"):
    id: int
