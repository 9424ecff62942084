"""The constants of the bytes on disk. ``FORMAT.md`` beside this file is the description; this is
its index.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct

HEADER_BYTES = 64
ALIGNMENT = 8
HEADER_VERSION = 1
MAGIC = 0x3147464E  # "NFG1" in the file
DURABLE_UNKNOWN = 0xFFFFFFFF
SEQ_MAX = 0xFFFFFFFE
BODY_BYTES_MAX = 64 * 1024 * 1024

# magic kind role flags version | session_id | sequence_id body_length | timestamp
# | token_count epoch | producer_id | producer_seq body_crc | durable_back header_crc
HEADER = Struct("<IBBBBQIIqIIQIIII")
assert HEADER.size == HEADER_BYTES


class Kind(IntEnum):
    """What a record is. Zero is never a record: preallocated space reads as zero."""

    TURN = 1
    SESSION_OPENED = 2
    AGENT_JOINED = 3
    MARK = 4
    HIDDEN = 5
    UNHIDDEN = 6
    FORK = 7
    ERASING = 8
    ERASED = 9
    NOOP = 10
    REFUSED = 11
    # Of the long-term tier, in a log of its own, which shares NOOP, ERASING, ERASED and REFUSED.
    REMEMBERED = 12
    REVISED = 13
    TAGGED = 14
    UNTAGGED = 15
    RELATED = 16
    UNRELATED = 17
    FORGOTTEN = 18
    UNDONE = 19
    ARCHIVED = 20
    UNARCHIVED = 21
    PURGED = 22
    ASKED = 23
    CHUNKED = 24
    # Of conversations again.
    PLANNED = 25
    NOT_REFLECTED = 26
    WORKED = 27
    WORKING_STATE = 28
    RECALLED = 29
    SALVAGED = 30  # of both tiers


class RecordFlag(IntFlag):
    KEYED = 1  # producer_id and producer_seq hold first 8 and last 4 bytes of the key's digest
    BATCH_FIRST = 2
    BATCH_MORE = 4  # another record of the same batch follows; the last one is without it
    CALLS = 8  # the turn holds tool calls: role tool_call, or an assistant turn with ``tool_calls``


class RoleCode(IntEnum):
    """The role byte. OTHER: the role is a string of its own, in the body under BodyField.ROLE."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL_CALL = 4
    TOOL_RESULT = 5
    THOUGHT = 6
    TOOL = 7
    FUNCTION = 8
    OTHER = 255


ROLE_CODES: dict[str, RoleCode] = {r.name.lower(): r for r in RoleCode if r is not RoleCode.OTHER}
ROLE_NAMES: dict[int, str] = {int(code): name for name, code in ROLE_CODES.items()}
RESULT_ROLES = frozenset({RoleCode.TOOL_RESULT, RoleCode.TOOL, RoleCode.FUNCTION})


class BodyField(IntEnum):
    """Keys of the CBOR map that is a turn's body. Absent means None, or {} for METADATA."""

    CONTENT = 0
    NAME = 1
    AGENT = 2
    CALL_ID = 3
    KEY = 4
    METADATA = 5
    ROLE = 6


SURROGATE_TAG = 28262  # private CBOR tag over bytes: text with lone surrogates ("surrogatepass")


def stride(body_length: int) -> int:
    """Bytes that a record with this body takes in the log."""
    return HEADER_BYTES + ((body_length + 7) & ~7)
