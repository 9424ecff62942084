"""Reading the end of an old log that nobody shipped: whole batches of sound records, in pieces.

It is read twice. First for its ERASING records: what they name is erased, whether its bytes were
zeroed or not. Then for the rest, a bounded part at a time; between two steps whoever reads beside
other work does that. A batch whose last record is missing was never acknowledged, unless records
behind it prove that it was durable; it stays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from neverforget.storage import control
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import (
    DURABLE_UNKNOWN,
    HEADER,
    HEADER_BYTES,
    Kind,
    RecordFlag,
    stride,
)
from neverforget.storage.record import Header, body_of, log_seed, read_header
from neverforget.storage.salvage_bodies import Source
from neverforget.storage.salvage_results import Piece
from neverforget.storage.scan import scan
from neverforget.storage.segments import check_header

_READ_BYTES: Final = 1 << 20
PIECE_BYTES: Final = 256 * 1024  # or one larger batch
_FIRST, _MORE = int(RecordFlag.BATCH_FIRST), int(RecordFlag.BATCH_MORE)


class Part(NamedTuple):
    """Log positions ``first`` up to ``stop``. ``read``: (position, size) -> bytes, fewer only at
    the end of the file.
    """

    read: Callable[[int, int], bytes]
    first: int
    stop: int


class OldRecord(NamedTuple):
    """``was``: the source it had before it was salvaged into this log."""

    position: int
    header: Header
    record: bytes
    was: Source | None = None

    @property
    def source(self) -> Source:
        """By which it is known, whatever way it comes: no other record has both."""
        return self.was or (self.position, self.header.header_crc)


class _Found(NamedTuple):
    """``record`` None: its body cannot be read. ``zeroed``: an erasure took it, whoever's."""

    position: int
    header: Header
    record: bytes | None
    zeroed: bool


def pieces(
    parts: Sequence[Part],
    *,
    log_id: int,
    parting: int,
    stream: int,
    bytes_max: int = PIECE_BYTES,
) -> Iterator[Piece | None]:
    """None: some work is done, nothing is to be told yet. ``parts`` in log order. Raises OSError,
    UnsupportedFormat.
    """
    seed = log_seed(log_id)
    erased: set[int] = set()
    durable = 0
    for part in parts:
        for chunk in _walk(part, seed):
            for found in chunk:
                if found.header.durable_back != DURABLE_UNKNOWN:
                    durable = max(durable, found.position - 8 * found.header.durable_back)
                if found.header.kind == Kind.ERASING and found.record is not None:
                    erased.update(position for position, _ in _ranges_in(found.record))
            yield None
    cutter = _Cutter(log_id, parting, stream, bytes_max, erased, durable)
    for part in parts:
        for chunk in _walk(part, seed):
            yield from cutter.take(chunk)
            yield None
    yield from cutter.rest()


class _Cutter:
    """Makes pieces of records that follow each other; ``erased``: positions of bodies; ``durable``:
    how far the log surely was.
    """

    def __init__(
        self, log_id: int, parting: int, stream: int, bytes_max: int, erased: set[int], durable: int
    ) -> None:
        self._log_id, self._parting, self._stream = log_id, parting, stream
        self._bytes_max = bytes_max
        self._erased = erased
        self._durable = durable
        self._index = 0
        self._batch: list[_Found] = []
        self._batches: list[list[tuple[int, bytearray]]] = []
        self._size = self._unreadable = 0
        self._gone: list[tuple[int, bytes]] = []  # erased

    def take(self, chunk: Sequence[_Found]) -> Iterator[Piece]:
        for found in chunk:
            if found.header.flags & _FIRST:
                yield from self._broken_off()
            self._batch.append(found)
            if not found.header.flags & _MORE:
                yield from self._add()

    def _broken_off(self) -> Iterator[Piece]:
        """The end of a batch is missing: it is damaged, or was never there."""
        if self._batch and self._batch[-1].position < self._durable:
            self._unreadable += 1
            yield from self._add()
        self._batch = []

    def _add(self) -> Iterator[Piece]:
        batch, self._batch = self._batch, []
        size = sum(stride(each.header.body_length) for each in batch)
        if (self._batches or self._gone) and self._size + size > self._bytes_max:
            yield self._piece()
        spans: list[tuple[int, bytearray]] = []
        for position, header, record, zeroed in batch:
            if zeroed or position + HEADER_BYTES in self._erased:
                self._gone.append((position, HEADER.pack(*header)))
                self._size += HEADER_BYTES
            elif record is None:
                self._unreadable += 1
            else:
                if spans and spans[-1][0] + len(spans[-1][1]) == position:
                    spans[-1][1].extend(record)
                else:
                    spans.append((position, bytearray(record)))
                self._size += len(record)
        if spans:
            self._batches.append(spans)

    def rest(self) -> Iterator[Piece]:
        """One of them is the last; it may be empty."""
        yield from self._broken_off()
        yield self._piece(last=True)

    def _piece(self, *, last: bool = False) -> Piece:
        made = Piece(
            self._log_id, self._stream, self._index, self._parting,
            [[(position, bytes(raw)) for position, raw in spans] for spans in self._batches],
            self._gone, self._unreadable, last,
        )  # fmt: skip
        self._index += 1
        self._batches, self._gone, self._size, self._unreadable = [], [], 0, 0
        return made


def _ranges_in(record: bytes) -> list[control.Range]:
    try:
        body = control.read_body(body_of(record))
        return control.unpack_ranges(body.get(F[ControlField.RANGES], b""))
    except Corrupt:
        return []  # it comes again, and is refused, with its record


def _walk(part: Part, seed: int) -> Iterator[list[_Found]]:
    """What stands in ``part``, a bounded number of bytes (but one record at least) at a time."""
    at, wanted = part.first, _READ_BYTES
    while at + HEADER_BYTES <= part.stop:
        raw = part.read(at, min(wanted, part.stop - at))
        found = scan(memoryview(raw), base=at, start=0, size=part.stop - at, seed=seed)
        bad = set(found.bad_bodies)
        records: list[_Found] = []
        following = 0
        for offset in found.offsets:
            header = read_header(raw, offset)
            end = offset + stride(header.body_length)
            if end > len(raw) and at + len(raw) < part.stop and len(raw) == wanted:
                following = offset  # it goes on behind what was read
                break
            whole = None if offset in bad else raw[offset:end]
            zeroed = whole is None and not any(raw[offset + HEADER_BYTES : end])
            records.append(_Found(at + offset, header, whole, zeroed))
            following = end
        else:
            # What stands behind the last one may be the beginning of a header.
            following = max(following, (len(raw) - HEADER_BYTES + 8) & ~7)
        yield records
        if len(raw) < HEADER_BYTES:
            return
        if following == 0:  # one record, larger than what was read
            wanted = stride(read_header(raw).body_length)
        else:
            at, wanted = at + following, _READ_BYTES


def encode_piece(piece: Piece) -> bytes:
    return msgspec.msgpack.encode(piece)


def decode_piece(raw: bytes) -> Piece:
    """Raises Corrupt; what stands in its batches is checked by ``batches_in``."""
    try:
        return msgspec.msgpack.decode(raw, type=Piece)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a piece of an old log cannot be read: {error}") from error


def erased_in(piece: Piece) -> Iterator[Header]:
    """Raises Corrupt."""
    seed = log_seed(piece.log_id)
    for position, raw in piece.erased:
        fields = check_header(memoryview(raw), 0, position, seed)
        if fields is None:
            raise Corrupt(f"what was sent of position {position} of an old log is damaged")
        yield Header._make(fields)


def batches_in(piece: Piece) -> Iterator[list[OldRecord]]:
    """The sound records of each batch. Raises Corrupt, UnsupportedFormat."""
    seed = log_seed(piece.log_id)
    for spans in piece.batches:
        batch: list[OldRecord] = []
        for position, raw in spans:
            size = len(raw)
            found = scan(memoryview(raw), base=position, start=0, size=size, seed=seed)
            if found.bad_bodies or found.gaps or found.data_end != size:
                raise Corrupt(f"what was sent of position {position} of an old log is damaged")
            ends = [*found.offsets[1:], size]
            batch += [
                OldRecord(position + offset, read_header(raw, offset), raw[offset:end])
                for offset, end in zip(found.offsets, ends)
            ]
        yield batch
