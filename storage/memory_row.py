"""One memory as a generation keeps it: what filters ask for as columns, the rest as bytes."""

from __future__ import annotations

import msgspec

from neverforget.storage.arrow_rows import RowFormat


class MemoryRow(msgspec.Struct, frozen=True, array_like=True):
    """One version of a memory. ``position`` and ``record_crc`` are those of its log record (the
    CRC32C of the body), so a row can be told from any other and checked against the log.

    ``id`` is the 16 bytes of its UUID; times are microseconds UTC. ``metadata`` and ``rest`` belong
    to whoever writes rows: CBOR of the metadata, and of everything that no filter asks for.
    ``context`` is the neighbouring text that is searched by words only.
    """

    position: int
    id: bytes
    version: int
    record_crc: int
    text: str
    context: str | None
    key: str | None
    type: str
    status: str
    tags: tuple[str, ...]
    namespace: tuple[str, ...]
    agent: str | None
    speaker: str | None
    source: str | None
    importance: float
    confidence: float
    created_at_us: int
    occurred_at_us: int | None
    valid_from_us: int | None
    valid_to_us: int | None
    metadata: bytes
    rest: bytes


MEMORY_ROWS = RowFormat("memories", 1, MemoryRow)
