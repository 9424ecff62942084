"""Generations of what is derived from a long-term log: stored, opened, rebuilt.

    stored = Generations.open(fs, directory, region.state, model=..., dimension=...)
    stored.index ...                  # a LongTermIndex that has caught up with the log
    stored.publish()                  # the indexer, from time to time
    stored.close()

A generation is rows (Arrow), vectors (FAISS) and words (tantivy), paired by ``MANIFEST``. Opening
uses what is whole and takes the rest from the log: words of what is newer than the text index, the
names of speakers, and what waits for its vectors. A part that is missing, damaged, or of another
log is made anew, and reported in ``findings``.

Row numbers are the ids in the indexes. Each part says of how many rows it knows, with a digest of
where these were first written; a table that differs makes the part worthless, never wrong. Nothing
is stored that the log could lose: the owner syncs first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from crc32c import crc32c

from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import (
    Corrupt,
    EmbedderMismatch,
    NeverforgetError,
    NotFound,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.longterm_documents import ForgottenTexts, document_of, speaker_of
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_following import changed_since
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_row_generations import RowGenerations
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_view import rows_of_vectors
from neverforget.storage.manifest import (
    Examined,
    Manifest,
    Part,
    collect,
    examine,
    free_name,
    publish,
)
from neverforget.storage.memory_table import Array
from neverforget.storage.results import Finding
from neverforget.storage.text_index import TextDocument, TextIndex
from neverforget.storage.vector_index import VectorBase, VectorBounds, VectorIndex

_REBUILT = (Corrupt, NotFound, UnsupportedFormat)


class Generations:
    """See the module. Called by the indexer thread; made by ``open``."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        state: LongTermState,
        model: str | None,
        dimension: int,
        bounds: VectorBounds | None,
        role: Role,
    ) -> None:
        self._fs, self.directory, self._state = fs, directory, state
        self._model, self._dimension = model, dimension
        self._rows = RowGenerations(fs, directory, state)
        self._bounds = bounds
        self._role: Role = role
        self._log_id = read_identity(fs, state.directory).log_id
        self.manifest = Manifest(log_id=self._log_id, number=0, watermark=0)
        self._text_name = ""
        self.findings: list[Finding] = []
        self.index: LongTermIndex

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: Path,
        state: LongTermState,
        *,
        model: str | None,
        dimension: int = 0,
        bounds: VectorBounds | None = None,
        role: Role = "application",
    ) -> Generations:
        """``model``: of the embedder; None for a store without one. EmbedderMismatch when the
        stored vectors are of another; UnsupportedFormat of a newer version; StoreLocked.
        """
        stored = cls(fs, directory, state, model, dimension, bounds, role)
        fs.make_directory(directory)
        found = examine(fs, directory, stored._log_id)
        stored.findings += found.findings
        if found.manifest is not None:
            # What is damaged is not there: the next generation is made without it.
            stored.manifest = msgspec.structs.replace(found.manifest, parts=found.usable)
        stored._open(found)
        return stored

    def _open(self, found: Examined) -> None:
        state, table = self._state, self._state.table
        forgotten = self._forgotten()
        living = self._living()
        usable = {part.role: part for part in found.usable if part.role != "rows"}
        vectors, vectors_upto = self._open_vectors(usable.get("vectors"))
        text = self._open_text(usable.get("text"))
        brought = living
        if text is None:
            text = self._rebuild_text(forgotten)
        elif text.watermark < state.log.written:
            self._catch_up(text, living, forgotten)
        index = self.index = LongTermIndex(state, text, vectors, upto=state.log.written)
        index.forgotten = forgotten
        index.erased = changed_since(state, self.manifest.watermark).erased
        embedded = np.empty(0, np.int64)
        if vectors is not None:
            changed = changed_since(state, vectors_upto).rows
            ids = vectors.snapshot().ids()
            rows = rows_of_vectors(ids)
            gone = ~np.isin(rows, living) | np.isin(rows, changed)
            vectors.remove(ids[gone])
            embedded = np.unique(rows[~gone])
        self._load_speakers(index, [p for p in found.usable if p.role == "rows"], table.count)
        index.start(brought, embedded)

    # ---- opening what is there -------------------------------------------------------------------

    def _open_vectors(self, part: Part | None) -> tuple[VectorIndex | None, int]:
        if self._model is None:
            return None, 0
        if part is not None and part.seal is not None:
            model, dimension = part.details.get("model"), part.details.get("dimension")
            if (model, dimension) != (self._model, self._dimension):
                raise EmbedderMismatch(
                    f"this store holds vectors of {model} ({dimension} dimensions), not of "
                    f"{self._model} ({self._dimension}); open it with the former, or reindex"
                )
            try:
                self._check_rows(part)
                path = self.directory / part.name
                base = VectorBase.load(self._fs, path, part.seal, self._dimension)
                return VectorIndex(base, self._bounds), part.stop
            except _REBUILT as error:
                self._report(part, error)
        return VectorIndex(VectorBase.empty(self._dimension), self._bounds), 0

    def _open_text(self, part: Part | None) -> TextIndex | None:
        if part is None:
            return None
        try:
            self._check_rows(part)
            text = TextIndex.open(self._fs, self.directory / part.name, role=self._role)
        except _REBUILT as error:
            self._report(part, error)
            return None
        if text.watermark > self._state.log.written:
            text.close()
            self._report(part, Corrupt(f"{part.name} knows more than the log"))
            return None
        self._text_name = part.name
        return text

    def _catch_up(self, text: TextIndex, living: Array, forgotten: ForgottenTexts) -> None:
        changes = changed_since(self._state, text.watermark)
        changed = changes.rows
        here = np.isin(changed, living)
        text.remove(changed[~here])
        text.add(self._documents(changed[here], forgotten))
        if changes.forgotten:  # these texts may stand in the context of any other
            contexts = living[self._state.table.column("has_context")[living]]
            text.add(self._documents(contexts, forgotten))

    def _check_rows(self, part: Part) -> None:
        """Corrupt unless the table's first rows are those that the part was made of."""
        count, digest = part.details.get("rows"), part.details.get("born")
        born = self._state.table.column("born")
        if not isinstance(count, int) or count > len(born) or _digest(born[:count]) != digest:
            raise Corrupt(f"{part.name} is of other memories than the log holds; it is rebuilt")

    def _load_speakers(self, index: LongTermIndex, parts: list[Part], count: int) -> None:
        """From the generations; what they do not tell, from the log."""
        table = self._state.table
        missing = np.ones(count, bool)
        missing[table.column("status") == Status.GONE] = False
        positions = table.column("position").astype(np.int64)
        order = np.argsort(positions)
        for part in parts:
            try:
                for at, name in self._rows.speakers(part):
                    place = int(np.searchsorted(positions, at, sorter=order))
                    row = int(order[place]) if place < count else -1
                    if row >= 0 and positions[row] == at:
                        index.rows.set_speaker(row, name)
                        missing[row] = False
            except _REBUILT as error:
                self._report(part, error)
        for row in np.flatnonzero(missing).tolist():
            try:
                _, body = self._state.bodies.read(int(positions[row]))
            except Corrupt:
                continue
            index.rows.set_speaker(row, speaker_of(body))

    def _report(self, part: Part, error: NeverforgetError) -> None:
        path, size = str(self.directory / part.name), part.seal.size if part.seal else 0
        self.findings.append(Finding("bad_derived_file", "repaired", path, 0, size, str(error)))
        parts = tuple(each for each in self.manifest.parts if each.name != part.name)
        self.manifest = msgspec.structs.replace(self.manifest, parts=parts)

    # ---- from the log ----------------------------------------------------------------------------

    def _living(self) -> Array:
        table = self._state.table
        status = table.column("status")
        living = (status == Status.ACTIVE) | (status == Status.ARCHIVED)
        return np.flatnonzero(living & table.column("readable"))

    def _forgotten(self) -> ForgottenTexts:
        texts, table = ForgottenTexts(), self._state.table
        for row in np.flatnonzero(table.column("status") == Status.FORGOTTEN).tolist():
            try:
                _, body = self._state.bodies.read(table.get(row, "position"))
            except Corrupt:
                continue
            texts.add(row, str(body.get(M[MemoryField.TEXT], "")))
        return texts

    def _documents(self, rows: Array, forgotten: ForgottenTexts) -> Iterator[TextDocument]:
        for row in rows.tolist():
            try:
                header, body = self._state.bodies.read(self._state.table.get(row, "position"))
            except Corrupt:
                continue
            yield document_of(row, body, header.timestamp, forgotten)

    def _rebuild_text(self, forgotten: ForgottenTexts) -> TextIndex:
        """A new index of everything that lives, in a directory that no manifest names yet."""
        name = free_name(self._fs, self.directory, "text", self.manifest.number + 1)
        text = TextIndex.create(self._fs, self.directory / name, role=self._role)
        try:
            text.load(self._documents(self._living(), forgotten), self._state.log.written)
        except BaseException:
            text.close()
            raise
        self._text_name = name
        return text

    # ---- storing ---------------------------------------------------------------------------------

    def publish(self, *, anew: bool = False) -> Manifest:
        """Store all that is there, as one generation. Long. The region is synced and nothing is
        written meanwhile beyond what was noticed and brought. It survives power loss when this
        returns; OutOfSpace, OSError: the last one holds.

        ``anew``: copy nothing from older files. Done by itself after an erasure, whose words must
        be in no file.
        """
        state, index = self._state, self.index
        watermark = index.upto
        assert state.log.durable >= watermark, "sync first: the log must not lose what is stored"
        assert not index.bring(), "bring what was noticed first"
        anew = anew or index.erased
        number = self.manifest.number + 1
        parts = self._rows.store(self.manifest, watermark, anew=anew)
        if index.vectors is not None:
            parts.append(self._store_vectors(number, watermark, index.vectors))
        if anew:
            old = index.text
            index.change_text(self._rebuild_text(index.forgotten))
            old.close()
        details = {"incarnation": index.text.incarnation, **self._rows_known()}
        stop = index.text.watermark
        parts.append(Part(role="text", name=self._text_name, start=0, stop=stop, details=details))
        manifest = Manifest(
            log_id=self._log_id, number=number, watermark=watermark, parts=tuple(parts)
        )
        # First the manifest, with the digest of the rows that the text index will know.
        publish(self._fs, self.directory, manifest)
        self.manifest = manifest
        index.erased = False
        if index.text.watermark < watermark:
            index.text.commit(watermark)
        collect(self._fs, self.directory, manifest)
        return manifest

    def _store_vectors(self, number: int, watermark: int, vectors: VectorIndex) -> Part:
        name = free_name(self._fs, self.directory, "vectors", number)
        seal = vectors.fold().save(self._fs, self.directory / name)
        assert self._model is not None
        known = {"model": self._model, "dimension": self._dimension, **self._rows_known()}
        return Part(role="vectors", name=name, start=0, stop=watermark, seal=seal, details=known)

    def _rows_known(self) -> dict[str, str | int]:
        born = self._state.table.column("born")
        return {"rows": len(born), "born": _digest(born)}

    def close(self) -> None:
        """Let go of the text index. What is not published is derived again."""
        self.index.text.close()


def _digest(born: Array) -> int:
    return int(crc32c(np.ascontiguousarray(born).tobytes()))
