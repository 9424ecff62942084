"""The bodies of long-term records: CBOR maps with these keys, and ids as the header holds them.

The sixteen bytes of a memory's id stand in the header (session_id, sequence_id, token_count), so
that whose record it is can be told when its body is erased or unreadable. ``FORMAT.md`` describes
each kind.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.record import Header, encode_control


class MemoryField(IntEnum):
    TEXT = 0
    KEY = 1
    TYPE = 2
    TAGS = 3
    IMPORTANCE = 4
    CONFIDENCE = 5
    SOURCE = 6
    AGENT = 7
    SPEAKER = 8
    NAMESPACE = 9
    METADATA = 10
    OCCURRED_AT = 11
    CONTEXT = 12
    VALID_FROM = 13
    VALID_TO = 14
    VERSION = 15
    PREVIOUS = 16  # position of the record of the version before this one
    CREATED_AT = 17  # of version 1
    BY = 18
    REQUEST = 20  # digest of what was asked, in the first record of a batch
    IDS = 21  # the memories meant, 16 bytes each
    CASCADE = 22  # the memories that go with them
    TARGET = 23  # of a relation: 16 bytes, or [namespace, session, first, last]
    RELATION = 24
    WEIGHT = 25
    ORIGINAL = 26  # of a chunk or summary: whose, 16 bytes
    ORIGINAL_VERSION = 27
    SPAN = 28  # [start, stop) characters of the original's text
    FILTER = 29
    DETAILS = 30
    FORGOTTEN = 31  # position of the FORGOTTEN record that an UNDONE one takes back
    PLACES = 32  # salted digests of the namespace that holds everybody named, one for each level
    # Of working memories.
    GROUP = 40  # its name; of an agent's own AGENT is
    WORKED = 41  # what was done to it
    TAKEN = 42  # ids added, recalled, revised, pinned; of a state: the items
    TOKENS = 43
    PINNED = 44
    LEFT = 45  # ids that were removed, or deleted
    BUDGET = 46
    MEMBERS = 47
    ENDED = 48  # digests of working memories that an erasure ends, 16 bytes each


M = {field: int(field) for field in MemoryField}  # plain ints: an IntEnum is slow to encode

Body = dict[int, Any]

ID_BYTES = 16
CHUNK, SUMMARY = "-chunk", "-summary"  # how types of derived memories end
DERIVED_SUFFIXES = (CHUNK, SUMMARY)
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-([78])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)
_PARTS = struct.Struct(">QII")


class Id(NamedTuple):
    """A memory's id in the three header fields that hold it."""

    high: int  # session_id
    middle: int  # sequence_id
    low: int  # token_count


NO_ID = Id(0, 0, 0)


def parse_id(text: object, *, derived: bool = False) -> Id:
    """A UUIDv7 (``derived``: a UUIDv8) in canonical text. Raises InvalidArgument."""
    found = _ID.fullmatch(text) if isinstance(text, str) else None
    if found is None or not isinstance(text, str):
        raise InvalidArgument(f"{text!r} is no memory id; pass a UUIDv7 in canonical form")
    if (found[1] == "8") is not derived:
        raise InvalidArgument(f"{text} is a UUIDv{found[1]}; memories have 7, derived ones have 8")
    return id_of(bytes.fromhex(text.replace("-", "")))


def any_id(text: object) -> Id | None:
    """The id that ``text`` spells, of either version; None for whatever is none."""
    if isinstance(text, str) and _ID.fullmatch(text) is not None:
        return id_of(bytes.fromhex(text.replace("-", "")))
    return None


def id_of(packed: bytes) -> Id:
    return Id(*_PARTS.unpack(packed))


def id_in(header: Header) -> Id:
    return Id(header.session_id, header.sequence_id, header.token_count)


def packed_id(wanted: Id) -> bytes:
    return _PARTS.pack(*wanted)


def id_text(wanted: Id) -> str:
    raw = _PARTS.pack(*wanted).hex()
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"


def pack_ids(ids: Iterable[Id]) -> bytes:
    return b"".join(_PARTS.pack(*each) for each in ids)


def check_packed(packed: object) -> bytes:
    """``packed``, which is ids laid end to end. Raises Corrupt."""
    if not isinstance(packed, bytes) or len(packed) % ID_BYTES:
        raise Corrupt("the ids of a long-term record are not whole")
    return packed


def unpack_ids(packed: object) -> list[Id]:
    return [Id(*parts) for parts in _PARTS.iter_unpack(check_packed(packed))]


def named_in(body: Body) -> list[Id]:
    """Everybody a record names: those meant, and those that go with them."""
    return unpack_ids(packed_in(body))


def packed_in(body: Body) -> bytes:
    """As ``named_in``, laid end to end. Raises Corrupt."""
    fields = (MemoryField.IDS, MemoryField.CASCADE)
    return b"".join(check_packed(body.get(M[field], b"")) for field in fields)


def packed_texts(packed: bytes) -> list[str]:
    """The texts of ids laid end to end."""
    raw = packed.hex()
    starts = range(0, len(raw), 2 * ID_BYTES)
    return [
        f"{raw[i : i + 8]}-{raw[i + 8 : i + 12]}-{raw[i + 12 : i + 16]}-"
        f"{raw[i + 16 : i + 20]}-{raw[i + 20 : i + 32]}"
        for i in starts
    ]


def encode_memory_record(
    kind: Kind,
    about: Id,
    body: Body,
    *,
    timestamp_us: int,
    request: tuple[int, int],
    role: int = 0,
) -> bytearray:
    """A record about one memory (or NO_ID), ready to be stamped with ``about``."""
    return encode_control(
        kind, about.high, about.middle, body, timestamp_us=timestamp_us,
        producer=request[0], producer_seq=request[1], token_count=about.low, role=role,
    )  # fmt: skip


def namespace_scope(namespace: tuple[str, ...], key: str) -> bytes:
    """Bytes that stand for a key in its namespace; no two look alike."""
    pieces = [len(namespace).to_bytes(4, "little")]
    for element in (*namespace, key):
        encoded = element.encode("utf-8", "surrogatepass")
        pieces += (len(encoded).to_bytes(4, "little"), encoded)
    return b"".join(pieces)


def key_hash(namespace: tuple[str, ...], key: str) -> int:
    """Where to look for a key, never 0. Whoever finds a memory there compares the key itself."""
    digest = hashlib.blake2b(namespace_scope(namespace, key), digest_size=8, person=b"nf-memory")
    return int.from_bytes(digest.digest(), "little") or 1


def is_derived_type(type_name: str) -> bool:
    return type_name.endswith(DERIVED_SUFFIXES)
