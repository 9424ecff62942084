"""The rows of generations: versions of memories in Arrow files, from which texts are read.

A file covers the content records between two log positions; the files of a manifest follow each
other without a gap, and the oldest are merged when there are many. ``GenerationBodies`` reads what
a memory says from them: the header from the log, the body from the row of its position. A row that
is not that of the header, is damaged or missing is read from the log, which has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from neverforget.storage.arrow_generation import Generation
from neverforget.storage.arrow_writing import Written, merge_generations, write_generation
from neverforget.storage.content import decode_body, encode_body
from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_bodies import BodySource, read_each, view_of
from neverforget.storage.longterm_fields import M, MemoryField, id_in, packed_id
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.manifest import Manifest, Part, free_name
from neverforget.storage.memory_row import MEMORY_ROWS, MemoryRow
from neverforget.storage.memory_table import Array
from neverforget.storage.record import Header

GENERATIONS_MAX: Final = 8  # the oldest are merged beyond it

_PAUSE_ROWS: Final = 32  # between two pauses, for a writer beside a busy thread: a millisecond
_TEXT = M[MemoryField.TEXT]
# Fields that a column of their own holds, as they are in a body; absent is None.
_PLAIN: Final = {
    M[MemoryField.KEY]: "key",
    M[MemoryField.TYPE]: "type",
    M[MemoryField.IMPORTANCE]: "importance",
    M[MemoryField.CONFIDENCE]: "confidence",
    M[MemoryField.SOURCE]: "source",
    M[MemoryField.AGENT]: "agent",
    M[MemoryField.SPEAKER]: "speaker",
    M[MemoryField.CONTEXT]: "context",
    M[MemoryField.OCCURRED_AT]: "occurred_at_us",
    M[MemoryField.VALID_FROM]: "valid_from_us",
    M[MemoryField.VALID_TO]: "valid_to_us",
}
_LISTS: Final = {M[MemoryField.TAGS]: "tags", M[MemoryField.NAMESPACE]: "namespace"}
_METADATA = M[MemoryField.METADATA]
_IN_COLUMNS: Final = {_TEXT, _METADATA, *_PLAIN, *_LISTS}


def memory_row(state: LongTermState, bodies: BodySource, position: int) -> MemoryRow | None:
    """The version at ``position`` as its record has it; None where nothing can be read of it."""
    if state.is_erased_at(position):
        return None
    try:
        header, body = bodies.read(position)
        view = view_of(header, position, body, status="active", born=0)
    except Corrupt:
        return None
    rest = {field: value for field, value in body.items() if field not in _IN_COLUMNS}
    row = MemoryRow(
        position=position,
        id=packed_id(id_in(header)),
        version=view.version,
        record_crc=header.body_crc,
        text=view.text,
        context=view.context,
        key=view.key,
        type=view.type,
        status=view.status,
        tags=view.tags,
        namespace=view.namespace,
        agent=view.agent,
        speaker=view.speaker,
        source=view.source,
        importance=float(view.importance),
        confidence=float(view.confidence),
        created_at_us=view.created_at,
        occurred_at_us=view.occurred_at,
        valid_from_us=view.valid_from,
        valid_to_us=view.valid_to,
        metadata=encode_body({0: view.metadata}),
        rest=encode_body(rest),
    )
    return row if body_in(row) == body else None  # what no column can hold, the log alone has


def body_in(row: MemoryRow) -> Body:
    """The body of the record that ``row`` was made of."""
    body: Body = {_TEXT: row.text}
    for field, name in _PLAIN.items():
        value = getattr(row, name)
        if value is not None:
            body[field] = value
    for field, name in _LISTS.items():
        value = getattr(row, name)
        if value:
            body[field] = list(value)
    metadata: Any = decode_body(row.metadata)[0]
    if metadata:
        body[_METADATA] = metadata
    body.update(decode_body(row.rest))
    return body


class GenerationBodies:
    """A ``BodySource``; any thread. ``generations``: in log order."""

    def __init__(
        self, state: LongTermState, log: BodySource, generations: Sequence[Generation[MemoryRow]]
    ) -> None:
        self.log = log
        self._state = state
        self._generations = tuple(generations)

    def read(self, position: int) -> tuple[Header, Body]:
        for generation in self._generations:
            try:
                number = generation.place(position)
                if number is not None and not self._state.is_erased_at(position):
                    header, row = self._state.log.header(position), generation.row(number)
                    if row.position == position and row.record_crc == header.body_crc:
                        return header, body_in(row)
            except (Corrupt, IndexError):  # damaged, or closed at this moment
                break
        return self.log.read(position)

    def read_many(self, positions: Array, fields: Collection[int]) -> Iterator[tuple[int, Body]]:
        """From a few columns of files whose digests were checked: a quarter of what rows take. What
        they do not hold, or not exactly, is read one by one.
        """
        left = np.ones(len(positions), np.bool_)
        names = [_PLAIN[field] for field in fields if field in _PLAIN]
        if len(names) + (_METADATA in fields) == len(fields):
            sound, places = ~self._state.are_erased_at(positions), positions.astype(np.int64)
            for generation in self._generations:
                try:
                    yield from _columns_of(generation, places, left, sound, fields)
                except (Corrupt, OSError, IndexError, ValueError):
                    continue  # damaged, or closed at this moment
        yield from read_each(self, positions, np.flatnonzero(left).tolist())


class RowGenerations:
    """Files are written by one publisher; they are opened on any thread."""

    def __init__(self, fs: FileSystem, directory: Path, state: LongTermState) -> None:
        self._fs, self.directory, self._state = fs, directory, state

    def open(self, part: Part) -> Generation[MemoryRow]:
        assert part.seal is not None
        path, file_id = self.directory / part.name, str(part.details["file_id"])
        return Generation.open(self._fs, path, MEMORY_ROWS, part.seal, file_id=file_id)

    def store(
        self,
        manifest: Manifest,
        watermark: int,
        current: Array,
        bodies: BodySource,
        pause: Callable[[], object],
        *,
        anew: bool,
    ) -> list[Part]:
        """Write what is missing up to ``watermark``; all parts of the next manifest. ``current``:
        positions of the versions in force. ``bodies``: of the log. ``anew``: from it alone.
        """
        number = manifest.number + 1
        kept = [] if anew else self._in_a_row(manifest)
        start = kept[-1].stop if kept else 0
        if len(kept) >= GENERATIONS_MAX:
            kept = self._merged(kept, number, current)
        return [*kept, *self._new(number, start, watermark, bodies, pause)]

    def _in_a_row(self, manifest: Manifest) -> list[Part]:
        """Of the manifest, as far as they follow each other: a damaged one ends the row."""
        found: list[Part] = []
        for part in manifest.of("rows"):
            if part.start != (found[-1].stop if found else 0):
                break
            found.append(part)
        return found

    def _new(
        self, number: int, start: int, stop: int, bodies: BodySource, pause: Callable[[], object]
    ) -> list[Part]:
        if start == stop:
            return []
        name = free_name(self._fs, self.directory, "rows", number)
        rows = self._between(start, stop, bodies, pause)
        written = write_generation(self._fs, self.directory / name, MEMORY_ROWS, rows)
        return [_rows_part(name, start, stop, written)]

    def _merged(self, parts: list[Part], number: int, current: Array) -> list[Part]:
        """All older rows as one file, less the versions that are in force no more."""
        name = free_name(self._fs, self.directory, "rows", number + 1)
        sources = [self.open(part) for part in parts]
        wanted = np.sort(current.astype(np.int64))
        written = merge_generations(
            self._fs, self.directory / name, sources, keep=lambda p: np.isin(p, wanted)
        )
        for source in sources:
            source.close()
        return [_rows_part(name, parts[0].start, parts[-1].stop, written)]

    def _between(
        self, start: int, stop: int, bodies: BodySource, pause: Callable[[], object]
    ) -> Iterator[MemoryRow]:
        done = 0
        for heads, positions in heads_from(self._state, start, stop):
            wanted = np.isin(heads["kind"], [int(kind) for kind in CONTENT])
            for position in positions[wanted].tolist():
                row = memory_row(self._state, bodies, position)
                if row is not None:
                    yield row
                done += 1
                if done % _PAUSE_ROWS == 0:
                    pause()


def _rows_part(name: str, start: int, stop: int, written: Written) -> Part:
    details: dict[str, str | int] = {"file_id": written.file_id}
    return Part(role="rows", name=name, start=start, stop=stop, seal=written.seal, details=details)


def _columns_of(
    generation: Generation[MemoryRow],
    positions: Array,
    left: Array,
    sound: Array,
    fields: Collection[int],
) -> Iterator[tuple[int, Body]]:
    """Those that this one holds; they are ``left`` no more. ``sound``: which may be read."""
    names = [_PLAIN.get(field, "metadata") for field in fields]
    for held, (exact, *cells) in generation.readers(["exact", *names]):
        at = np.minimum(held.searchsorted(positions), len(held) - 1)
        which = np.flatnonzero((held[at] == positions) & left & sound)
        for number, row in zip(which.tolist(), at[which].tolist()):
            if exact(row) is not None:
                continue
            body: Body = {}
            for field, cell in zip(fields, cells):
                value = cell(row)
                if field == _METADATA:
                    value = decode_body(value)[0]
                if value is not None:
                    body[field] = value
            left[number] = False
            yield number, body
