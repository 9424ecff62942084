"""One record: a 64-byte header and a CBOR body. Making one (client), stamping it (owner), reading
it back.

The client makes the record complete but for what only the owner knows; the owner stamps session_id,
sequence_id, epoch, durable_back and the header's CRC in place. Bytes: ``FORMAT.md``.

Invariants: what ``encode_turn`` returns can be decoded again and comes back equal; nothing that
cannot is ever sent. The owner never decodes a body: it checks lengths, CRC and kind. A header's CRC
is seeded with the log's id and the record's position, so that the bytes of a record are a record at
one place of one log only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple

import cbor2
from crc32c import crc32c

from neverforget.storage.content import decode_body as decode_body
from neverforget.storage.content import decode_turn_body, plain_content, text_from_tag
from neverforget.storage.content import encode_body as encode_body
from neverforget.storage.digests import key_digest as key_digest
from neverforget.storage.digests import session_digest as session_digest
from neverforget.storage.digests import session_scope as session_scope
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import (
    BODY_BYTES_MAX,
    DURABLE_UNKNOWN,
    HEADER,
    HEADER_BYTES,
    HEADER_VERSION,
    MAGIC,
    ROLE_CODES,
    BodyField,
    Kind,
    RecordFlag,
    RoleCode,
    stride,
)
from neverforget.storage.type_names import a_type

Buffer = bytes | bytearray | memoryview

_U32_MAX = 0xFFFFFFFF
_I64_MAX = 2**63 - 1
_PADDING = [bytes(n) for n in range(8)]
_FLAGS_INCOMING = int(RecordFlag.KEYED | RecordFlag.CALLS)
_ROLES_INCOMING = frozenset(int(code) for code in RoleCode)

# The fields that the owner stamps: flags, version, session_id, sequence_id | epoch | durable_back |
# header_crc.
_IDENTITY_AT, _EPOCH_AT, _DURABLE_AT, _CRC_AT = 6, 36, 56, 60
_IDENTITY = Struct("<BBQI")
_U32 = Struct("<I")
_U64 = Struct("<Q")

# BodyField as plain ints: an IntEnum member costs a slow path in cbor2 and a hash call in every
# lookup.
_CONTENT, _NAME, _AGENT, _CALL_ID = 0, 1, 2, 3
_KEY, _METADATA, _ROLE = 4, 5, 6
assert list(BodyField) == [_CONTENT, _NAME, _AGENT, _CALL_ID, _KEY, _METADATA, _ROLE]


class Header(NamedTuple):
    """A record's header, field by field, in the order of the bytes."""

    magic: int
    kind: int
    role: int
    flags: int
    version: int
    session_id: int
    sequence_id: int
    body_length: int
    timestamp: int
    token_count: int
    epoch: int
    producer_id: int
    producer_seq: int
    body_crc: int
    durable_back: int
    header_crc: int


# ---- making a record -----------------------------------------------------------------------------


def encode_turn(
    *,
    role: str,
    content: Any,
    name: str | None = None,
    agent: str | None = None,
    call_id: str | None = None,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    timestamp_us: int,
    token_count: int,
    producer: int,
    producer_seq: int,
    key_scope: bytes,
) -> bytes:
    """The whole record of one turn, padded to its stride, all but what the owner stamps.

    Raises InvalidArgument for whatever would not come back equal: tuples, sets and other objects
    (naming the path, ``content[3].x``), nesting that cannot be read again, a body above 64 MiB,
    numbers out of their fields' range. Text and bytes need no proof; whatever is structured is
    decoded again here, before anything is sent."""
    body: dict[int, Any] = {}
    structured = False
    if content is not None:
        kind = type(content)
        if kind is not str and kind is not bytes:
            content = plain_content(content, "content")
            structured = True
        body[_CONTENT] = content
    if name is not None:
        body[_NAME] = name if type(name) is str else _text(name, "name")
    if agent is not None:
        body[_AGENT] = agent if type(agent) is str else _text(agent, "agent")
    if call_id is not None:
        body[_CALL_ID] = call_id if type(call_id) is str else _text(call_id, "call_id")
    if key is not None:
        body[_KEY] = key if type(key) is str else _text(key, "key")
    if metadata:
        body[_METADATA] = _metadata(metadata)
        structured = True
    if type(role) is not str:
        role = _text(role, "role")
    role_code = ROLE_CODES.get(role)
    if role_code is None:
        role_code = RoleCode.OTHER
        body[_ROLE] = role

    try:
        encoded = cbor2.dumps(body)
    except UnicodeEncodeError:
        encoded = encode_body(body)
    if structured:
        _prove(encoded, body)
    length = len(encoded)
    if length > BODY_BYTES_MAX:
        raise InvalidArgument(
            f"a turn of {length:,} bytes is above the limit of {BODY_BYTES_MAX:,}; store it "
            "elsewhere and append a reference, or split it"
        )
    flags = 0
    if role == "tool_call" or (
        role == "assistant" and type(content) is dict and content.get("tool_calls")
    ):
        flags = 8  # RecordFlag.CALLS
    if key is not None:
        flags |= 1  # RecordFlag.KEYED
        digest = key_digest(key_scope, body[_KEY])
        producer = int.from_bytes(digest[:8], "little")
        producer_seq = int.from_bytes(digest[8:], "little")
    _check_numbers(timestamp_us, token_count)
    header = HEADER.pack(
        MAGIC, 1, role_code, flags, HEADER_VERSION, 0, 0, length, timestamp_us, token_count, 0,
        producer, producer_seq, crc32c(encoded), DURABLE_UNKNOWN, 0,
    )  # fmt: skip
    return header + encoded + _PADDING[-length & 7]


def encode_control(
    kind: Kind,
    session_id: int,
    seq: int,
    body: Mapping[Any, Any],
    *,
    timestamp_us: int,
    producer: int = 0,
    producer_seq: int = 0,
    token_count: int = 0,
    role: int = 0,
) -> bytearray:
    """A record that the owner writes on its own account, ready to be stamped. An empty body takes
    no bytes."""
    encoded = encode_body(body) if body else b""
    if len(encoded) > BODY_BYTES_MAX:
        raise InvalidArgument(f"a {kind.name} record of {len(encoded):,} bytes is above the limit")
    record = bytearray(stride(len(encoded)))
    HEADER.pack_into(
        record, 0, MAGIC, kind, role, 0, HEADER_VERSION, session_id, seq, len(encoded),
        timestamp_us, token_count, 0, producer, producer_seq, crc32c(encoded), DURABLE_UNKNOWN, 0,
    )  # fmt: skip
    record[HEADER_BYTES : HEADER_BYTES + len(encoded)] = encoded
    return record


def _text(value: object, where: str) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise InvalidArgument(f"{where} is {a_type(value)}; pass text")


def _metadata(metadata: object) -> Any:
    if not isinstance(metadata, Mapping):
        raise InvalidArgument(f"metadata is {a_type(metadata)}; pass a dict with text keys")
    return plain_content(dict(metadata), "metadata")


def _check_numbers(timestamp_us: int, token_count: int) -> None:
    if not -_I64_MAX - 1 <= timestamp_us <= _I64_MAX:
        raise InvalidArgument(f"timestamp {timestamp_us} is outside 64-bit microseconds")
    if not 0 <= token_count <= _U32_MAX:
        raise InvalidArgument(f"token_count {token_count} is outside 0..{_U32_MAX}")


def _prove(encoded: bytes, body: dict[int, Any]) -> None:
    """What is structured must come back: the encoder accepts nesting that the decoder refuses."""
    try:
        again = encode_body(cbor2.loads(encoded, tag_hook=text_from_tag))
    except (cbor2.CBORError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"this turn could be written but not read back ({error}); flatten it"
        ) from error
    if again != encoded:
        raise InvalidArgument(
            f"this turn would not come back equal; fields {sorted(body)} as they were given"
        )


# ---- stamping ------------------------------------------------------------------------------------


def log_seed(log_id: int) -> int:
    """Where every header CRC of a log begins."""
    return crc32c(_U64.pack(log_id))


def header_seed(seed: int, position: int) -> int:
    """CRC32C of (log_id, position): where the CRC of the header at ``position`` begins. ``seed``:
    see log_seed."""
    return crc32c(_U64.pack(position), seed)


def stamp(
    buffer: bytearray,
    offset: int,
    *,
    session_id: int,
    seq: int,
    epoch: int,
    flags_or: int,
    durable_back: int,
    seed: int,
) -> None:
    """Fill in what only the owner knows, in place. ``seed`` is ``header_seed`` of the place it is
    stamped for."""
    _IDENTITY.pack_into(
        buffer,
        offset + _IDENTITY_AT,
        buffer[offset + _IDENTITY_AT] | flags_or,
        HEADER_VERSION,
        session_id,
        seq,
    )
    _U32.pack_into(buffer, offset + _EPOCH_AT, epoch)
    _U32.pack_into(buffer, offset + _DURABLE_AT, durable_back)
    _U32.pack_into(buffer, offset + _CRC_AT, crc32c(buffer[offset : offset + _CRC_AT], seed))


# ---- reading -------------------------------------------------------------------------------------


def read_header(buffer: Buffer, offset: int = 0) -> Header:
    """The header at ``offset``, unchecked."""
    return Header._make(HEADER.unpack_from(buffer, offset))


def body_of(record: Buffer, offset: int = 0) -> memoryview:
    """The body's bytes of the record at ``offset``, unchecked and not copied."""
    length = _U32.unpack_from(record, offset + 20)[0]
    return memoryview(record)[offset + HEADER_BYTES : offset + HEADER_BYTES + length]


def decode_records(records: Buffer) -> Iterator[tuple[Header, dict[int, Any] | None]]:
    """(header, body) of records laid end to end; body None where it is missing (erased or
    unreadable: ``body_length`` is 0) or not what a turn's body must be (``body_length`` is not 0).

    The owner checks CRCs and does not decode, so one client with a fault of its own may have stored
    anything; that costs that turn, never its neighbours. Body CRCs are checked again: what arrives
    here crossed a socket. Raises Corrupt.
    """
    view = memoryview(records)
    offset, end = 0, len(view)
    while offset < end:
        header = Header._make(HEADER.unpack_from(view, offset))
        length = header.body_length
        if header.magic != MAGIC or offset + HEADER_BYTES + length > end:
            raise Corrupt(f"no record at byte {offset} of {end}", offset=offset)
        if length == 0:
            yield header, None
        else:
            body = view[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
            if crc32c(body) != header.body_crc:
                raise Corrupt(
                    f"body CRC of the record at byte {offset} does not match", offset=offset
                )
            yield header, decode_turn_body(body)
        offset += HEADER_BYTES + ((length + 7) & ~7)


def check_incoming(records: Buffer) -> list[tuple[int, int, Header]]:
    """(offset, stride, header) of every record in a request. InvalidArgument refuses the whole
    batch.

    Checks what the owner relies on without decoding: magic, version, kind TURN, role, flags,
    lengths, body CRC, and padding that is zero."""
    view = memoryview(records)
    end = len(view)
    found: list[tuple[int, int, Header]] = []
    offset = 0
    while offset < end:
        if offset + HEADER_BYTES > end:
            raise InvalidArgument(f"half a header at byte {offset} of {end}")
        header = Header._make(HEADER.unpack_from(view, offset))
        length = header.body_length
        size = HEADER_BYTES + ((length + 7) & ~7)
        body_at = offset + HEADER_BYTES
        if header.magic != MAGIC or header.version != HEADER_VERSION or header.kind != 1:
            raise InvalidArgument(
                f"what stands at byte {offset} is not a turn of version {HEADER_VERSION}"
            )
        if header.flags & ~_FLAGS_INCOMING or header.role not in _ROLES_INCOMING:
            raise InvalidArgument(
                f"the turn at byte {offset} has flags or a role that no client sets"
            )
        if not 0 < length <= BODY_BYTES_MAX or offset + size > end:
            raise InvalidArgument(f"the turn at byte {offset} has an impossible length, {length:,}")
        if crc32c(view[body_at : body_at + length]) != header.body_crc:
            raise InvalidArgument(f"the body of the turn at byte {offset} fails its CRC")
        if view[body_at + length : offset + size] != _PADDING[-length & 7]:
            raise InvalidArgument(f"the padding of the turn at byte {offset} is not zero")
        found.append((offset, size, header))
        offset += size
    return found
