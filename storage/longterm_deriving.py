"""Chunks and summaries: memories made from another one, stored as one atomic batch.

A chunking carries the version of its original and is refused where that is no longer current and
active. Ids are drawn from (original, version, span, splitter version): the same chunking again
changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from msgspec import to_builtins

from neverforget.storage.control import Body
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_checks import check_text
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_fields import (
    Id,
    M,
    MemoryField,
    id_of,
    id_text,
    packed_id,
    parse_id,
)
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import NewDerived, Remembered, Span, Status
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import LongTermState

CHUNK_OF, PART_OF_SEQUENCE, SUMMARIZES = "chunk-of", "part-of-sequence", "summarizes"
_SUFFIX = {"chunk": "-chunk", "summary": "-summary"}
_NOT_CARRIED = (MemoryField.KEY, MemoryField.CONTEXT)


def derived_id(original: str, version: int, kind: str, span: Span | None, splitter: str) -> str:
    """The UUIDv8 of a chunk or summary: equal for equal arguments, on every machine."""
    said = f"{original}/{version}/{kind}/{span}/{splitter}".encode()
    raw = bytearray(hashlib.blake2b(said, digest_size=16, person=b"nf-derived").digest())
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return id_text(id_of(bytes(raw)))


class Deriver:
    def __init__(self, state: LongTermState, reads: LongTermReads, staging: Staging) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging

    def derive(
        self,
        original: str,
        version: int,
        parts: Sequence[NewDerived],
        by: str,
        request: Request,
    ) -> Remembered:
        """Stage all of ``parts`` with their relations. Raises NotFound, Conflict when the original
        is not active at ``version``, InvalidArgument when the chunks joined are not the original.
        """
        state, table = self._state, self._state.table
        digest = request_digest("derive", [original, version, to_builtins(parts), by])
        repeated = self._staging.repeated(request, digest)
        row = self._reads.row(original, include_forgotten=repeated is not None)
        if self._reads.is_derived(row):
            raise InvalidArgument(f"{original} is itself made from another memory")
        current = table.get(row, "version")
        if repeated is None and (current != version or table.get(row, "status") != Status.ACTIVE):
            raise Conflict(f"memory {original} is no longer at version {version}", seq=current)
        ids = [parse_id(part.id, derived=True) for part in parts]
        rows = [table.find(wanted) for wanted in ids]
        if repeated is not None or (ids and None not in rows):
            found = [self._reads.view(r) for r in rows if r is not None]
            end = state.log.tail if repeated is None else repeated.end
            return Remembered(found, [False] * len(found), end)
        _, body = state.bodies.read(table.get(row, "position"))
        self._check(parts, rows, body[M[MemoryField.TEXT]])
        staged = self._staging.stage(
            self._plan(row, version, parts, ids, body, by), request, digest
        )
        made = [table.find(wanted) for wanted in ids]
        views = [self._reads.view(r) for r in made if r is not None]
        return Remembered(views, [True] * len(views), staged.end)

    def _check(self, parts: Sequence[NewDerived], rows: list[int | None], text: str) -> None:
        chunks = [part for part in parts if part.kind == "chunk"]
        if not chunks or any(part.kind not in _SUFFIX for part in parts):
            raise InvalidArgument("a chunking holds chunks, and perhaps a summary")
        if any(row is not None for row in rows):
            raise Conflict("some of these chunks are there already, and some are not", seq=None)
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

    def _plan(
        self,
        row: int,
        version: int,
        parts: Sequence[NewDerived],
        ids: list[Id],
        original: Body,
        by: str,
    ) -> list[Planned]:
        source = packed_id(self._state.table.id(row))
        carried = content_of(original)
        for field in _NOT_CARRIED:
            carried.pop(M[field], None)
        tags = self._state.table.tags.values[self._state.table.get(row, "tags")]
        if tags:
            carried[M[MemoryField.TAGS]] = list(tags)
        type_name = carried[M[MemoryField.TYPE]]
        planned = []
        for part, wanted in zip(parts, ids):
            body = carried | {
                M[MemoryField.TEXT]: part.text,
                M[MemoryField.TYPE]: type_name + _SUFFIX[part.kind],
                M[MemoryField.ORIGINAL]: source,
                M[MemoryField.ORIGINAL_VERSION]: version,
                M[MemoryField.BY]: by,
            }
            if part.span is not None:
                body[M[MemoryField.SPAN]] = list(part.span)
            planned.append(Planned(Kind.REMEMBERED, wanted, body))
        chunks = [wanted for part, wanted in zip(parts, ids) if part.kind == "chunk"]
        for part, wanted in zip(parts, ids):
            kind = CHUNK_OF if part.kind == "chunk" else SUMMARIZES
            planned.append(_relation(wanted, source, kind))
        for one, following in pairwise(chunks):
            planned.append(_relation(one, packed_id(following), PART_OF_SEQUENCE))
            planned.append(_relation(following, packed_id(one), PART_OF_SEQUENCE))
        return planned


def _relation(source: Id, target: bytes, kind: str) -> Planned:
    body: Body = {
        M[MemoryField.TARGET]: target,
        M[MemoryField.RELATION]: kind,
        M[MemoryField.WEIGHT]: 1.0,
    }
    return Planned(Kind.RELATED, source, body)
