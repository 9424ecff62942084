"""Chunks and summaries: memories made from another one, stored as one atomic batch.

A chunking carries the version of its original and is refused where that is no longer current and
active. Ids are drawn from (original, version, span, splitter version): the same chunking again
changes nothing. The batch ends with a CHUNKED record, which goes on record. What is large in the
original's metadata is not repeated in every chunk: searches judge a chunk by its original.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import to_builtins

from neverforget.storage.audit_places import SALT_BYTES, places_of
from neverforget.storage.content import encode_body
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_checks import check_text
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_fields import (
    CHUNK,
    SUMMARY,
    Id,
    M,
    MemoryField,
    id_of,
    id_text,
    pack_ids,
    packed_id,
    parse_id,
)
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_relating import CHUNK_OF, PART_OF_SEQUENCE, SUMMARIZES
from neverforget.storage.longterm_results import NewDerived, Remembered, Span, Status
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.type_names import a_type

_SUFFIX = {"chunk": CHUNK, "summary": SUMMARY}
METADATA_BYTES_MAX: Final = 4_096  # encoded; more than that no chunk or summary carries
_NOT_CARRIED = (MemoryField.KEY, MemoryField.CONTEXT)


def derived_id(original: str, version: int, kind: str, span: Span | None, splitter: str) -> str:
    """The UUIDv8 of a chunk or summary: equal for equal arguments, on every machine."""
    said = f"{original}/{version}/{kind}/{span}/{splitter}".encode()
    raw = bytearray(hashlib.blake2b(said, digest_size=16, person=b"nf-derived").digest())
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return id_text(id_of(bytes(raw)))


class Deriver:
    def __init__(
        self,
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging
        self._random_bytes = random_bytes

    def derive(
        self,
        original: str,
        version: int,
        parts: Sequence[NewDerived],
        by: str,
        request: Request,
        splitter: str,
    ) -> Remembered:
        """See ``LongTermRegion.derive``."""
        state, table = self._state, self._state.table
        # Without a request id nothing is kept of what was asked: the ids of the chunks say it all.
        asked = [original, version, to_builtins(parts), by, splitter] if request[0] else []
        digest = request_digest("derive", asked)
        repeated = self._staging.repeated(request, digest)
        ids = [parse_id(part.id, derived=True) for part in parts]
        if repeated is not None:
            return self._as_it_is(table.find_many(ids), repeated.end)
        row = self._reads.row(original)
        if self._reads.is_derived(row):
            raise InvalidArgument(f"{original} is itself made from another memory")
        current = table.get(row, "version")
        if current != version or table.get(row, "status") != Status.ACTIVE:
            raise Conflict(f"memory {original} is no longer at version {version}", seq=current)
        _check_kinds(parts)
        there = self._living(row)
        if len(there):
            self._check_same(parts, ids, there)
            return self._as_it_is(there, state.log.tail)
        _, body = state.bodies.read(table.get(row, "position"))
        self._check(original, version, parts, splitter, body[M[MemoryField.TEXT]])
        if len(table.find_many(ids)):
            raise Conflict("some of these ids are there, and are no chunks of it", seq=None)
        planned = self._plan(row, version, parts, ids, body, by, splitter)
        staged = self._staging.stage(planned, request, digest)
        views = [
            view_of(header, position, made, status="active", born=position)
            for position, header, made in staged.records
            if header.kind == Kind.REMEMBERED
        ]
        return Remembered(views, [True] * len(views), staged.end)

    def _living(self, row: int) -> Array:
        """Rows of the chunks and the summary that it has now."""
        children = self._state.table.children(row)
        living: Array = children[self._state.table.column("status")[children] < Status.FORGOTTEN]
        return living

    def _as_it_is(self, rows: Array, end: int) -> Remembered:
        views = [self._reads.view_or_mark(row) for row in rows.tolist()]
        return Remembered(views, [False] * len(views), end)

    def _check_same(self, parts: Sequence[NewDerived], ids: list[Id], there: Array) -> None:
        """A summary that comes after the chunks is left out: the chunking is done."""
        table = self._state.table
        held = {table.id(row) for row in there.tolist()}
        chunks = {wanted for part, wanted in zip(parts, ids) if part.kind == "chunk"}
        if not chunks <= held or len(held - chunks) > 1:
            raise Conflict("it is chunked already, and otherwise", seq=None)

    def _check(
        self,
        original: str,
        version: int,
        parts: Sequence[NewDerived],
        splitter: str,
        text: str,
    ) -> None:
        chunks = [part for part in parts if part.kind == "chunk"]
        if "".join(part.text for part in chunks) != text:
            raise InvalidArgument("the chunks joined are not the original")
        at = 0
        for part in chunks:
            if part.span != (at, at + len(part.text)) or not part.text:
                raise InvalidArgument(f"a chunk at {at} has the span {part.span}")
            at += len(part.text)
        for part in parts:
            if part.kind == "summary":
                check_text(part.text, "text")
            if part.context is not None and not isinstance(part.context, str):
                raise InvalidArgument(f"context is {a_type(part.context)}; pass text")
            if part.id != derived_id(original, version, part.kind, part.span, splitter):
                raise InvalidArgument(f"{part.id} is not the id of this {part.kind}")

    def _plan(
        self,
        row: int,
        version: int,
        parts: Sequence[NewDerived],
        ids: list[Id],
        original: Body,
        by: str,
        splitter: str,
    ) -> list[Planned]:
        source = packed_id(self._state.table.id(row))
        carried = self._carried(row, original)
        carried |= {
            M[MemoryField.ORIGINAL]: source,
            M[MemoryField.ORIGINAL_VERSION]: version,
            M[MemoryField.BY]: by,
        }
        type_name = carried[M[MemoryField.TYPE]]
        planned = []
        for part, wanted in zip(parts, ids):
            body = carried | {
                M[MemoryField.TEXT]: part.text,
                M[MemoryField.TYPE]: type_name + _SUFFIX[part.kind],
            }
            if part.span is not None:
                body[M[MemoryField.SPAN]] = list(part.span)
            if part.context:
                body[M[MemoryField.CONTEXT]] = part.context
            planned.append(Planned(Kind.REMEMBERED, wanted, body))
        chunks = [wanted for part, wanted in zip(parts, ids) if part.kind == "chunk"]
        for part, wanted in zip(parts, ids):
            kind = CHUNK_OF if part.kind == "chunk" else SUMMARIZES
            planned.append(_relation(wanted, source, kind))
        for one, following in pairwise(chunks):
            planned.append(_relation(one, packed_id(following), PART_OF_SEQUENCE))
            planned.append(_relation(following, packed_id(one), PART_OF_SEQUENCE))
        summaries = [wanted for part, wanted in zip(parts, ids) if part.kind != "chunk"]
        planned.append(self._on_record(row, version, chunks, summaries, by, splitter))
        return planned

    def _carried(self, row: int, original: Body) -> Body:
        table = self._state.table
        carried = content_of(original)
        for field in _NOT_CARRIED:
            carried.pop(M[field], None)
        tags = table.tags.values[table.get(row, "tags")]
        if tags:
            carried[M[MemoryField.TAGS]] = list(tags)
        else:
            carried.pop(M[MemoryField.TAGS], None)
        metadata = carried.get(M[MemoryField.METADATA])
        if metadata and len(encode_body(metadata)) > METADATA_BYTES_MAX:
            # A long text has thousands of chunks. A search asks the original's anyway.
            del carried[M[MemoryField.METADATA]]
        carried[M[MemoryField.CREATED_AT]] = table.get(row, "created_at")
        return carried

    def _on_record(
        self,
        row: int,
        version: int,
        chunks: list[Id],
        summaries: list[Id],
        by: str,
        splitter: str,
    ) -> Planned:
        """That the chunking is completed. It holds no word of the original, and outlasts it."""
        table, salt = self._state.table, self._random_bytes(SALT_BYTES)
        wanted = table.id(row)
        place = table.namespaces.values[table.get(row, "namespace")]
        details = {"version": version, "splitter": splitter, "summary": len(summaries)}
        body: Body = {
            M[MemoryField.IDS]: packed_id(wanted),
            M[MemoryField.CASCADE]: pack_ids([*chunks, *summaries]),
            M[MemoryField.DETAILS]: details,
            F[ControlField.BY]: by,
            F[ControlField.SALT]: salt,
            M[MemoryField.PLACES]: places_of(place, salt),
        }
        return Planned(Kind.CHUNKED, wanted, body)


def _check_kinds(parts: Sequence[NewDerived]) -> None:
    kinds = [part.kind for part in parts]
    if "chunk" not in kinds or not _SUFFIX.keys() >= set(kinds) or kinds.count("summary") > 1:
        raise InvalidArgument("a chunking holds chunks, and perhaps a summary")


def _relation(source: Id, target: bytes, kind: str) -> Planned:
    body: Body = {
        M[MemoryField.TARGET]: target,
        M[MemoryField.RELATION]: kind,
        M[MemoryField.WEIGHT]: 1.0,
    }
    return Planned(Kind.RELATED, source, body)
