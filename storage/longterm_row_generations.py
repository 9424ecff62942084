"""The rows of generations: every version of every memory that the log holds, in Arrow files.

A file covers the content records between two log positions; the files of a manifest follow each
other without a gap, and the oldest are merged when there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from neverforget.storage.arrow_generation import Generation
from neverforget.storage.arrow_writing import Written, merge_generations, write_generation
from neverforget.storage.content import encode_body
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_fields import M, MemoryField, id_in, packed_id
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.manifest import Manifest, Part, free_name
from neverforget.storage.memory_row import MEMORY_ROWS, MemoryRow

GENERATIONS_MAX: Final = 8  # the oldest are merged beyond it

_REST = (MemoryField.BY, MemoryField.ORIGINAL, MemoryField.SPAN, MemoryField.PREVIOUS)


def memory_row(state: LongTermState, position: int) -> MemoryRow | None:
    """The version at ``position`` as its record has it; None where nothing can be read of it."""
    if state.is_erased_at(position):
        return None
    try:
        header, body = state.bodies.read(position)
        view = view_of(header, position, body, status="active", born=0)
    except Corrupt:
        return None
    rest = {M[field]: body[M[field]] for field in _REST if M[field] in body}
    return MemoryRow(
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


class RowGenerations:
    """Called by the indexer thread."""

    def __init__(self, fs: FileSystem, directory: Path, state: LongTermState) -> None:
        self._fs, self.directory, self._state = fs, directory, state

    def speakers(self, part: Part) -> Iterator[tuple[int, str | None]]:
        """(position, speaker) of every version in it. Corrupt when it is damaged."""
        rows = self._generation(part)
        for start, batch in rows.scan(["position", "speaker", "exact"]):
            names, exact = batch.column(1).to_pylist(), batch.column(2)
            for at, position in enumerate(batch.column(0).to_pylist()):
                if exact[at].is_valid:  # a name that Arrow cannot hold
                    yield position, rows.row(start + at).speaker
                else:
                    yield position, names[at]
        rows.close()

    def store(self, manifest: Manifest, watermark: int, *, anew: bool) -> list[Part]:
        """Write what is missing up to ``watermark``; all parts of the next manifest. ``anew``: from
        the log alone.
        """
        number = manifest.number + 1
        kept = [] if anew else self._in_a_row(manifest)
        start = kept[-1].stop if kept else 0
        if len(kept) >= GENERATIONS_MAX:
            kept = self._merged(kept, number)
        return [*kept, *self._new(number, start, watermark)]

    def _generation(self, part: Part) -> Generation[MemoryRow]:
        assert part.seal is not None
        path, file_id = self.directory / part.name, str(part.details["file_id"])
        return Generation.open(self._fs, path, MEMORY_ROWS, part.seal, file_id=file_id)

    def _in_a_row(self, manifest: Manifest) -> list[Part]:
        """Of the manifest, as far as they follow each other: a damaged one ends the row."""
        found: list[Part] = []
        for part in manifest.of("rows"):
            if part.start != (found[-1].stop if found else 0):
                break
            found.append(part)
        return found

    def _new(self, number: int, start: int, stop: int) -> list[Part]:
        if start == stop:
            return []
        name = free_name(self._fs, self.directory, "rows", number)
        rows = self._between(start, stop)
        written = write_generation(self._fs, self.directory / name, MEMORY_ROWS, rows)
        return [_rows_part(name, start, stop, written)]

    def _merged(self, parts: list[Part], number: int) -> list[Part]:
        """All older rows as one file, less those that are no version of anything any more."""
        name = free_name(self._fs, self.directory, "rows", number + 1)
        sources = [self._generation(part) for part in parts]
        current = np.sort(self._state.table.column("position").astype(np.int64))
        written = merge_generations(
            self._fs, self.directory / name, sources, keep=lambda p: np.isin(p, current)
        )
        for source in sources:
            source.close()
        return [_rows_part(name, parts[0].start, parts[-1].stop, written)]

    def _between(self, start: int, stop: int) -> Iterator[MemoryRow]:
        state = self._state
        for heads, positions in heads_from(state, start):
            wanted = np.isin(heads["kind"], [int(kind) for kind in CONTENT])
            for position in positions[wanted].tolist():
                if position >= stop:
                    return
                row = memory_row(state, position)
                if row is not None:
                    yield row


def _rows_part(name: str, start: int, stop: int, written: Written) -> Part:
    details: dict[str, str | int] = {"file_id": written.file_id}
    return Part(role="rows", name=name, start=start, stop=stop, seal=written.seal, details=details)
