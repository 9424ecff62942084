"""What is shipped: one object holds a run of whole batches of one segment, or a fence.

Bytes: ``FORMAT.md``, *Objects*. Pure: bytes in, bytes out. A run carries the log's own bytes, which
stand in every copy of the log at the same positions; ``heads_crc`` tells whether another log holds
the same records without their bodies, and ``digest`` is that of the bytes as they were first put,
also after an erasure has zeroed bodies in them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.format import (
    HEADER,
    HEADER_BYTES,
    HEADER_VERSION,
    MAGIC,
    Kind,
    stride,
)

OBJECT_MAGIC = 0x424F464E  # "NFOB" in the object
# It grows with that of the records: who cannot read them must not take the log over, either.
OBJECT_VERSION = 1 + HEADER_VERSION
OBJECT_HEADER_BYTES = 144
TERM_MAX = 0xFFFF
DIGEST_BYTES = 16
KIND_AT = 4  # in a record's header

# magic version | store | log_id | number | owner | epoch kind term | base | size | start | stop
# | digest | segment_epoch heads_crc | erasures place | made_us | turns erasings
# | payload_crc header_crc
_HEADER = Struct("<II16sQQQIHHQQQQ16sIIIIQIIII")
assert _HEADER.size == OBJECT_HEADER_BYTES
_CRC_AT = OBJECT_HEADER_BYTES - 4


class ObjectKind(IntEnum):
    RUN = 1
    FENCE = 2


class Run(NamedTuple):
    """Whole batches that stand in [start, stop) of one segment. ``segment_epoch``, ``base`` and
    ``size`` are those of its header. ``heads_crc``: CRC over the header_crc (u4) of each record.
    """

    base: int
    size: int
    segment_epoch: int
    start: int
    stop: int
    heads_crc: int
    payload: bytes


class Author(NamedTuple):
    """Who puts: ``store`` the UUID's bytes, ``owner`` 64 random bits of this one owner, ``place``
    32 of the directory that its log stands in, the same for every owner there. ``term``: how often
    the log was told to be served elsewhere, as far as this owner knows.
    """

    store: bytes
    log_id: int
    owner: int
    place: int = 0
    term: int = 0


class ObjectHeader(NamedTuple):
    """An object's header, field by field, in the order of the bytes."""

    magic: int
    version: int
    store: bytes
    log_id: int
    number: int
    owner: int
    epoch: int
    kind: int
    term: int
    base: int
    size: int
    start: int
    stop: int
    digest: bytes
    segment_epoch: int
    heads_crc: int
    erasures: int
    place: int
    made_us: int
    turns: int
    erasings: int
    payload_crc: int
    header_crc: int

    @property
    def first_put(self) -> tuple[int, bytes]:
        """By which an owner knows its own put again."""
        return self.owner, self.digest


def log_prefix(store_id: str, log: str) -> str:
    """What the keys of all objects of a log begin with. ``log``: "partition-0", "longterm-0"."""
    return f"{store_id}/{log}/"


def settings_key(store_id: str) -> str:
    """Of what says how the store was made: it is there before anything else of it."""
    return f"{store_id}/settings"


def object_key(prefix: str, number: int) -> str:
    assert number > 0, "objects are numbered from 1"
    return f"{prefix}{number:016d}"


def store_bytes(store_id: str) -> bytes:
    return uuid.UUID(store_id).bytes


# ---- making --------------------------------------------------------------------------------------


def encode_run(author: Author, number: int, epoch: int, run: Run, made_us: int = 0) -> bytes:
    """``made_us``: when, by the clock of who puts it; all of it is durable there by then."""
    assert run.stop - run.start == len(run.payload) > 0, "a run holds its positions, all of them"
    assert run.base < run.start and run.stop <= run.base + run.size, "a run is of one segment"
    return _encode(author, number, epoch, ObjectKind.RUN, run, made_us)


def encode_fence(author: Author, number: int, epoch: int, position: int, made_us: int = 0) -> bytes:
    """``position``: what lies below it was shipped before."""
    run = Run(0, 0, 0, position, position, 0, b"")
    return _encode(author, number, epoch, ObjectKind.FENCE, run, made_us)


def _encode(
    author: Author, number: int, epoch: int, kind: ObjectKind, run: Run, made_us: int
) -> bytes:
    # The digest covers the header too: two fences of one owner have no bytes to tell them apart.
    told = Struct("<QQQII").pack(run.start, run.stop, number, epoch, kind)
    digest = hashlib.blake2b(told + run.payload, digest_size=DIGEST_BYTES).digest()
    kinds = [run.payload[first + KIND_AT] for first, _ in records_of(run.payload)]
    return _sealed(
        ObjectHeader(
            OBJECT_MAGIC, OBJECT_VERSION, author.store, author.log_id, number, author.owner, epoch,
            kind, author.term, run.base, run.size, run.start, run.stop, digest, run.segment_epoch,
            run.heads_crc, 0, author.place, made_us, kinds.count(Kind.TURN),
            kinds.count(Kind.ERASING), crc32c(run.payload), 0,
        ),
        run.payload,
    )  # fmt: skip


def _sealed(header: ObjectHeader, payload: bytes) -> bytes:
    made = _HEADER.pack(*header)
    return made[:_CRC_AT] + crc32c(made[:_CRC_AT]).to_bytes(4, "little") + payload


def zeroed(data: bytes, ranges: Iterable[Sequence[int]]) -> bytes | None:
    """The object with the bytes at these log (position, length) as zeros: same number, epoch, owner
    and digest. None where nothing of it changes. Raises as ``decode_object``.
    """
    header, payload = decode_object(data)
    changed = bytearray(payload)
    for position, length in ranges:
        first, last = max(position, header.start), min(position + length, header.stop)
        if first < last:
            changed[first - header.start : last - header.start] = bytes(last - first)
    if changed == payload:
        return None
    left = bytes(changed)
    return _sealed(header._replace(erasures=header.erasures + 1, payload_crc=crc32c(left)), left)


# ---- reading -------------------------------------------------------------------------------------


def decode_header(data: bytes | memoryview) -> ObjectHeader:
    """The header that ``data``, an object or its first bytes, begins with. Raises Corrupt;
    UnsupportedFormat for a sound one of a newer version.
    """
    if len(data) < OBJECT_HEADER_BYTES:
        raise _corrupt(f"an object of {len(data)} bytes is shorter than its header")
    header = ObjectHeader._make(_HEADER.unpack_from(data))
    if header.magic != OBJECT_MAGIC or crc32c(data[:_CRC_AT]) != header.header_crc:
        raise _corrupt("the header of an object fails its CRC")
    if header.version != OBJECT_VERSION:
        raise UnsupportedFormat(
            f"object {header.number} has version {header.version}; this neverforget reads "
            f"{OBJECT_VERSION}: install a newer one"
        )
    return header


def decode_object(data: bytes) -> tuple[ObjectHeader, bytes]:
    """(header, payload). Raises Corrupt, UnsupportedFormat."""
    header = decode_header(data)
    payload = data[OBJECT_HEADER_BYTES:]
    if len(payload) != header.stop - header.start or crc32c(payload) != header.payload_crc:
        raise _corrupt(f"the bytes of object {header.number} are not those that were put")
    return header, payload


def check_origin(header: ObjectHeader, author: Author, number: int) -> str | None:
    """What is wrong with an object that was found under ``number``; None: it is of this log."""
    if header.store != author.store:
        return f"object {number} is of store {uuid.UUID(bytes=header.store)}"
    if header.log_id != author.log_id:
        return f"object {number} is of log {header.log_id:016x}, not {author.log_id:016x}"
    if header.number != number:
        return f"what stands under the name of object {number} is object {header.number}"
    return None


def heads_crc_of(payload: bytes | memoryview) -> int:
    """CRC over the header_crc of each record of a run. Raises Corrupt where it is no run."""
    crc = end = 0
    for at, stop in records_of(payload):
        crc, end = crc32c(payload[at + 60 : at + 64], crc), stop
    if end != len(payload):
        raise _corrupt(f"what stands at byte {end} of a run is no record")
    return crc


def records_of(data: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """(start, end) of the records laid end to end in ``data``, as their headers say, unchecked; up
    to the first that is none, or not whole.
    """
    at = 0
    while at + HEADER_BYTES <= len(data):
        fields = HEADER.unpack_from(data, at)
        end = at + stride(fields[7])
        if fields[0] != MAGIC or end > len(data):
            return
        yield at, end
        at = end


def _corrupt(what: str) -> Corrupt:
    return Corrupt(f"{what}; restore it from a version that the bucket kept, or from a backup")
