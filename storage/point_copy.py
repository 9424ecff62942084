"""A log as it was at some time, made of the first of its objects.

    1. what erased anything later is read: a record names what it erased, also where the objects
       were not reached yet
    2. the objects are applied, one after the other, and everything named is zeroed
    3. these erasures are put on record behind, with the time, the name and the reason they had

So what was erased does not come back, and the log says why it is not there. In the log of memories
the versions that an erasure wrote anew, without the text of others, come with it where their own
ones were zeroed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from crc32c import crc32c

from neverforget.storage import control
from neverforget.storage.control import Body, ControlField, F, Range
from neverforget.storage.errors import Corrupt, Unavailable, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER_BYTES, Kind, RecordFlag
from neverforget.storage.longterm_fields import Id, id_in, named_in
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.record import (
    Header,
    body_of,
    encode_control,
    header_seed,
    log_seed,
    read_header,
    stamp,
)
from neverforget.storage.shipped_objects import ShippedObjects
from neverforget.storage.shipping_calls import Got
from neverforget.storage.shipping_events import Bad, Failed, Fetch
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_object import (
    Author,
    ObjectHeader,
    ObjectKind,
    check_origin,
    records_of,
)
from neverforget.storage.shipping_opening import ReadAhead

_TRIES = 6
_PAUSE_S = 0.2
_CONTENT = (Kind.REMEMBERED, Kind.REVISED)
_ON_RECORD = (Kind.PURGED, Kind.ASKED)
_BATCH = int(RecordFlag.BATCH_FIRST | RecordFlag.BATCH_MORE)

Record = tuple[Header, bytes]  # the whole of it


class PointCopy:
    """Of the log in ``directory``, which is new and empty, with the log's id. ``author``: whose
    objects they are. ``count``: how many of them are taken. ``conversations``: else, memories.
    ``tell``: called with the bytes that were read.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        store: ObjectStore,
        prefix: str,
        author: Author,
        objects: ShippedObjects,
        count: int,
        *,
        conversations: bool,
        tell: Callable[[int], None],
    ) -> None:
        self._local = LocalCopy(fs, directory, log_id=author.log_id, tail=0, epoch=0)
        self._seed = log_seed(author.log_id)
        self._ahead = ReadAhead(store, prefix)
        self._author = author
        self._objects = objects
        self._count = count
        self._stop = objects.headers[count - 1].stop if count else 0
        self._conversations = conversations
        self._tell = tell
        self._seqs: dict[int, int] = {}  # by session: the seq of its next turn
        self._newest: dict[Id, int] = {}  # by memory: where its newest version stands

    def carry_out(self) -> int:
        """How many later erasures reach into it. Durable when it returns. Raises Unavailable,
        Corrupt, OutOfSpace, OSError.
        """
        with self._ahead:
            later = list(self._later())
            self._apply()
        named: list[Range] = []
        for batch in later:
            named += self._named_in(batch)
        self._local.zero(named)
        zeroed = {position for position, _ in named}
        return sum(self._put_on_record(batch, zeroed) for batch in later)

    # ---- reading ---------------------------------------------------------------------------------

    def _later(self) -> Iterator[list[Record]]:
        """The batches behind it that erase something."""
        for header in self._objects.headers[self._count :]:
            if not header.erasings:
                continue
            _, payload = self._fetch(header.number, 0)
            batch: list[Record] = []
            for first, end in records_of(payload):
                record = read_header(payload, first)
                batch.append((record, payload[first:end]))
                # What is left of a batch whose end was lost goes alone, as the last one of a run.
                if record.flags & RecordFlag.BATCH_MORE and end < len(payload):
                    continue
                if any(held.kind == Kind.ERASING for held, _ in batch):
                    yield batch
                batch = []

    def _named_in(self, batch: list[Record]) -> list[Range]:
        found: list[Range] = []
        for header, raw in batch:
            if header.kind == Kind.ERASING:
                body = control.read_body(body_of(raw))
                ranges = control.unpack_ranges(body.get(F[ControlField.RANGES], b""))
                found += [(position, n) for position, n in ranges if position < self._stop]
        return found

    def _apply(self) -> None:
        position = 0
        for number in range(1, self._count + 1):
            header, payload = self._fetch(number, self._count)
            if header.kind == ObjectKind.RUN:
                self._local.apply(header, payload, max(position, header.start))
                position = header.stop
                self._note(payload, header.start)
            self._tell(self._objects.sizes[number - 1])

    def _note(self, payload: bytes, start: int) -> None:
        for first, _ in records_of(payload):
            header = read_header(payload, first)
            if self._conversations:
                following = header.sequence_id + (header.kind == Kind.TURN)
                held = self._seqs.get(header.session_id, 0)
                self._seqs[header.session_id] = max(held, following)
            elif header.kind in _CONTENT:
                self._newest[id_in(header)] = start + first

    def _fetch(self, number: int, last: int) -> tuple[ObjectHeader, bytes]:
        why = ""
        for attempt in range(_TRIES):
            answer = self._ahead.carry_out(Fetch(0, number, 0), last)
            if isinstance(answer, Got):
                wrong = check_origin(answer.header, self._author, number)
                if wrong is not None:
                    raise Corrupt(wrong)
                return answer.header, answer.payload
            if isinstance(answer, Bad):
                raise UnsupportedFormat(answer.reason) if answer.newer else Corrupt(answer.reason)
            assert isinstance(answer, Failed), "a fetch is answered so"
            why = answer.message
            time.sleep(_PAUSE_S * 2**attempt)
        raise Unavailable(f"object {number} cannot be read: {why}", outcome="not_applied")

    # ---- putting erasures on record --------------------------------------------------------------

    def _put_on_record(self, batch: list[Record], zeroed: set[int]) -> bool:
        carried: list[bytearray] = []
        erasing: list[tuple[int, Header]] = []  # which of them
        for header, raw in batch:
            if header.kind == Kind.ERASING:
                made = self._erasing(header, control.read_body(body_of(raw)))
                if made is not None:
                    erasing.append((len(carried), header))
                    carried.append(made)
            elif self._comes_along(header, raw, zeroed):
                carried.append(bytearray(raw))
        positions = self._append(carried)
        for at, header in erasing:
            body = {F[ControlField.ERASING]: positions[at]}
            done = encode_control(Kind.ERASED, 0, 0, body, timestamp_us=header.timestamp)
            self._append([done])
        return bool(erasing)

    def _erasing(self, header: Header, body: Body) -> bytearray | None:
        """The record with what it names of this log; None: nothing."""
        every = control.unpack_ranges(body.get(F[ControlField.RANGES], b""))
        ranges = [(position, n) for position, n in every if position < self._stop]
        if not ranges and not self._names_one(body):
            return None
        body = {**body, F[ControlField.RANGES]: control.pack_ranges(ranges)}
        body[F[ControlField.BYTES]] = sum(n for _, n in ranges)
        body.pop(F[ControlField.ERASING], None)  # that it is the rest of another one
        session_id, seq = header.session_id, header.sequence_id
        if self._conversations:
            seq = self._seqs.get(session_id, 0)
            turns = every[: body.get(F[ControlField.TURNS], 0)]
            body[F[ControlField.TURNS]] = sum(position < self._stop for position, _ in turns)
            session_id = session_id if session_id in self._seqs else 0
            if F[ControlField.RUNS] in body:
                runs = [[f, min(n, seq - 1)] for f, n in control.runs(body) if f < seq]
                body[F[ControlField.RUNS]] = runs
        return encode_control(
            Kind.ERASING, session_id, seq, body, timestamp_us=header.timestamp,
            token_count=header.token_count, role=header.role,
        )  # fmt: skip

    def _names_one(self, body: Body) -> bool:
        """A memory of this log goes, of which everything in it was zeroed for another reason."""
        return not self._conversations and any(each in self._newest for each in named_in(body))

    def _comes_along(self, header: Header, raw: bytes, zeroed: set[int]) -> bool:
        if self._conversations or crc32c(body_of(raw)) != header.body_crc:
            return False
        if header.kind in _CONTENT:
            newest = self._newest.get(id_in(header))
            return newest is not None and newest + HEADER_BYTES in zeroed
        return header.kind in _ON_RECORD

    def _append(self, records: list[bytearray]) -> list[int]:
        """One batch; the positions of its records."""
        n_bytes = sum(map(len, records))
        durable = self._local.tail
        start = self._local.place_for(n_bytes)
        batch, positions = bytearray(), []
        for at, record in enumerate(records):
            header = read_header(record)
            position = start + len(batch)
            flags = (0 if at else RecordFlag.BATCH_FIRST) | (
                RecordFlag.BATCH_MORE if at + 1 < len(records) else 0
            )
            record[6] &= ~_BATCH & 0xFF
            stamp(
                record, 0, session_id=header.session_id, seq=header.sequence_id,
                epoch=max(header.epoch, self._epoch), flags_or=int(flags),
                durable_back=(position - durable) >> 3,
                seed=header_seed(self._seed, position),
            )  # fmt: skip
            batch += record
            positions.append(position)
        self._local.append(batch, start)
        return positions

    @property
    def _epoch(self) -> int:
        return self._objects.headers[self._count - 1].epoch if self._count else 0
