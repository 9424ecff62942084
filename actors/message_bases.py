"""What every frame is made of; see ``messages.py`` for what they say."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

SYNC_PROCESS, SYNC_DISK, SYNC_REPLICA = 0, 1, 2

# What the fields of a record header hold. A frame with other numbers is none.
Producer = Annotated[int, Meta(ge=0)]  # msgpack has none above 64 bits
ProducerSeq = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
Tokens = Annotated[int, Meta(ge=0, le=2**53)]


class Request(Struct, array_like=True, tag_field="t"):
    id: int


class Reply(Struct, array_like=True, tag_field="t"):
    id: int
