"""Generations of what is derived from a long-term log: opened, rebuilt, and given to be searched.

    stored = Generations.open(fs, directory, region.state, model=..., dimension=...)
    stored.index ...                  # a LongTermIndex that has caught up with the log
    stored.publish()                  # or begin, run, finish: see longterm_publishing
    stored.close()

A generation is rows (Arrow), vectors (FAISS), words (tantivy) and the memory table, paired by
``MANIFEST``. Opening uses what is whole and takes the rest from the log: words of what is newer
than the text index, and what waits for its vectors. A part that is missing, damaged, or of another
log is made anew, and reported in ``findings``.

Row numbers are the ids in the indexes. Each part says of how many rows it knows, with a digest of
where these were first written; a table that differs makes the part worthless, never wrong. Nothing
is stored that the log could lose: the owner syncs first.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import msgspec
import numpy as np

from neverforget.storage.arrow_generation import Generation
from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import (
    Corrupt,
    EmbedderMismatch,
    NeverforgetError,
    NotFound,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_documents import ForgottenTexts, document_of
from neverforget.storage.longterm_folding import FoldingTurn, born_digest
from neverforget.storage.longterm_following import changed_since
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_publishing import Publication, forgotten_texts
from neverforget.storage.longterm_row_generations import GenerationBodies, RowGenerations
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_storing import Storing
from neverforget.storage.longterm_view import rows_of_vectors
from neverforget.storage.manifest import (
    Examined,
    Manifest,
    Part,
    check_part,
    examine,
    free_name,
    publish,
)
from neverforget.storage.memory_row import MemoryRow
from neverforget.storage.memory_table import Array
from neverforget.storage.results import Finding
from neverforget.storage.table_file import is_of_older_version
from neverforget.storage.text_index import COMMIT_DOCUMENTS, TextDocument, TextIndex
from neverforget.storage.vector_base import GoOn, nothing
from neverforget.storage.vector_index import VectorBase, VectorBounds, VectorIndex

_REBUILT = (Corrupt, NotFound, UnsupportedFormat)


class Generations(Storing):
    """See the module. Called by the indexer thread; made by ``open``."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        state: LongTermState,
        moment: Moment,
        model: str | None,
        dimension: int,
        expects_vectors: bool,
        bounds: VectorBounds | None,
        role: Role,
    ) -> None:
        self._fs, self.directory, self._state, self._moment = fs, directory, state, moment
        self._model, self._dimension = model, dimension
        self._expects_vectors = expects_vectors
        self._rows = RowGenerations(fs, directory, state)
        held = state.bodies
        self._log_bodies = held.log if isinstance(held, GenerationBodies) else held
        self._open_rows: dict[str, Generation[MemoryRow]] = {}
        self._bounds = bounds
        self._role: Role = role
        self._go_on: GoOn = nothing
        self._log_id = state.log_id
        self.manifest = Manifest(log_id=self._log_id, number=0, watermark=0)
        self._text_name = ""
        self._saved_base: VectorBase | None = None
        self._saved_part: Part | None = None
        self._unsaved = 0
        self._publication: Publication | None = None
        self._folding: FoldingTurn | None = None
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
        expects_vectors: bool = False,
        moment: Moment | None = None,
        bounds: VectorBounds | None = None,
        role: Role = "application",
        go_on: GoOn = nothing,
    ) -> Generations:
        """``model``: of the embedder; None for a store without one, or with one that has not said
        yet what it is (``expects_vectors``, see ``begin_vectors``). EmbedderMismatch when the
        stored vectors are of another; UnsupportedFormat of a newer version; StoreLocked.

        ``moment``: taken in the owner's thread; this may run on another one then, while the owner
        goes on. What was written since is seen by the first ``index.notice()``, which must come
        before the first view. ``go_on`` is called for each text, and may end it all by raising.
        """
        moment = Moment.of(state) if moment is None else moment
        stored = cls(fs, directory, state, moment, model, dimension, expects_vectors, bounds, role)
        stored._go_on = go_on
        fs.make_directory(directory)
        found = examine(fs, directory, stored._log_id)
        stored.findings += found.findings
        if found.manifest is not None:
            # What is damaged is not there: the next generation is made without it.
            stored.manifest = msgspec.structs.replace(found.manifest, parts=found.usable)
        try:
            stored._open(found)
        except BaseException:
            stored._let_go_of_rows()
            raise
        return stored

    def _open(self, found: Examined) -> None:
        state, moment = self._state, self._moment
        usable = {part.role: part for part in found.usable if part.role in ("vectors", "text")}
        self._saved_part = usable.get("vectors")
        self._check_whole([part for part in found.usable if part.role in ("rows", "table")])
        self._read_bodies_from(self.manifest)
        forgotten, living = forgotten_texts(state.bodies, moment, self._go_on), moment.living()
        vectors, vectors_upto = self._open_vectors(usable.get("vectors"))
        text = self._open_words(usable.get("text"), living, forgotten)
        expects = self._expects_vectors
        index = LongTermIndex(state, text, vectors, upto=moment.upto, expects_vectors=expects)
        self.index = index
        index.forgotten = forgotten
        index.erasures += changed_since(state, self.manifest.watermark, moment.upto).erased
        embedded = np.empty(0, np.int64)
        if vectors is not None:
            embedded = self._take_out_changed(vectors, vectors_upto, living, moment.upto)
        index.start(moment, living, embedded)

    # ---- opening what is there -------------------------------------------------------------------

    def _check_whole(self, parts: list[Part]) -> None:
        for part in parts:
            self._go_on()
            try:
                check_part(self._fs, self.directory, part, "crc")
                if part.stop > self._moment.upto:
                    raise Corrupt(f"{part.name} knows more than the log")
                path = self.directory / part.name
                if part.role == "table" and is_of_older_version(self._fs, path):
                    self._leave_out(part)
            except (*_REBUILT, OSError) as error:
                self._report(part, error)

    def _read_bodies_from(self, manifest: Manifest) -> None:
        """Texts of what a generation holds are read from its file."""
        opened: dict[str, Generation[MemoryRow]] = {}
        for part in manifest.of("rows"):
            try:
                held = self._open_rows.get(part.name)
                opened[part.name] = self._rows.open(part) if held is None else held
            except (*_REBUILT, OSError) as error:
                self._report(part, error)
        self._let_go_of_rows(opened.keys())
        self._open_rows = opened
        self._state.bodies = GenerationBodies(self._state, self._log_bodies, [*opened.values()])

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
                self._saved_base = base
                return VectorIndex(base, self._bounds), part.stop
            except _REBUILT as error:
                self._report(part, error)
        return VectorIndex(VectorBase.empty(self._dimension), self._bounds), 0

    def _take_out_changed(
        self, vectors: VectorIndex, since: int, living: Array, upto: int
    ) -> Array:
        """Vectors of rows that have changed since or are gone. Which rows keep theirs."""
        changed = changed_since(self._state, since, upto).rows
        ids = vectors.snapshot().ids()
        rows = rows_of_vectors(ids)
        gone = ~np.isin(rows, living) | np.isin(rows, changed)
        vectors.remove(ids[gone])
        return np.unique(rows[~gone])

    def _open_text(self, part: Part | None) -> TextIndex | None:
        if part is None:
            return None
        try:
            self._check_rows(part)
            text = TextIndex.open(self._fs, self.directory / part.name, role=self._role)
        except _REBUILT as error:
            self._report(part, error)
            return None
        if text.watermark > self._moment.upto:
            text.close()
            self._report(part, Corrupt(f"{part.name} knows more than the log"))
            return None
        self._text_name = part.name
        return text

    def _open_words(self, part: Part | None, living: Array, forgotten: ForgottenTexts) -> TextIndex:
        text = self._open_text(part)
        if text is None:
            return self._rebuild_text(living, forgotten)
        try:
            if text.watermark < self._moment.upto:
                self._catch_up(text, living, forgotten)
        except BaseException:
            text.close()
            raise
        return text

    def _catch_up(self, text: TextIndex, living: Array, forgotten: ForgottenTexts) -> None:
        moment = self._moment
        changes = changed_since(self._state, text.watermark, moment.upto)
        changed = changes.rows[changes.rows < moment.count]
        if changes.forgotten:  # these texts may stand in the context of any other
            changed = np.union1d(changed, living[moment.has_context[living]])
        here = np.isin(changed, living)
        documents = self._documents(changed[here], forgotten)
        if len(changed) >= COMMIT_DOCUMENTS and self._state.log.durable >= moment.upto:
            known = self._say_what_words_know()
            text.load(documents, moment.upto, changed[changed < known].tolist())
            return
        text.remove(changed[~here])
        text.add(documents)

    def _say_what_words_know(self) -> int:
        """A manifest with all rows of this moment for the text index, which is published before it
        is committed with them. Of how many rows it knew before.
        """
        moment, (part,) = self._moment, self.manifest.of("text")
        details = {"rows": moment.count, "born": born_digest(moment.born)}
        said = msgspec.structs.replace(part, details={**part.details, **details})
        parts = tuple(said if each is part else each for each in self.manifest.parts)
        number = self.manifest.number + 1
        self.manifest = msgspec.structs.replace(self.manifest, number=number, parts=parts)
        publish(self._fs, self.directory, self.manifest)
        return int(part.details["rows"])

    def _check_rows(self, part: Part) -> None:
        """Corrupt unless the table's first rows are those that the part was made of."""
        count, digest = part.details.get("rows"), part.details.get("born")
        born = self._moment.born
        if not isinstance(count, int) or count > len(born) or born_digest(born[:count]) != digest:
            raise Corrupt(f"{part.name} is of other memories than the log holds; it is rebuilt")

    def _report(self, part: Part, error: NeverforgetError | OSError) -> None:
        path, size = str(self.directory / part.name), part.seal.size if part.seal else 0
        self.findings.append(Finding("bad_derived_file", "repaired", path, 0, size, str(error)))
        self._leave_out(part)

    def _leave_out(self, part: Part) -> None:
        """The next generation is made without it."""
        parts = tuple(each for each in self.manifest.parts if each.name != part.name)
        if self._saved_part is not None and self._saved_part.name == part.name:
            self._saved_part = None
        self.manifest = msgspec.structs.replace(self.manifest, parts=parts)

    # ---- from the log ----------------------------------------------------------------------------

    def _documents(self, rows: Array, forgotten: ForgottenTexts) -> Iterator[TextDocument]:
        for row in rows.tolist():
            self._go_on()
            try:
                header, body = self._state.bodies.read(int(self._moment.position[row]))
            except Corrupt:
                continue
            yield document_of(row, body, header.timestamp, forgotten)

    def _rebuild_text(self, living: Array, forgotten: ForgottenTexts) -> TextIndex:
        """A new index of everything that lives, in a directory that no manifest names yet."""
        name = free_name(self._fs, self.directory, "text", self.manifest.number + 1)
        text = TextIndex.create(self._fs, self.directory / name, role=self._role)
        try:
            text.load(self._documents(living, forgotten), self._moment.upto)
        except BaseException:
            text.close()
            raise
        self._text_name = name
        return text

    # ---- vectors, later --------------------------------------------------------------------------

    def begin_vectors(self, model: str, dimension: int) -> None:
        """Of a store that was opened without: its embedder has said what it is. Those that are
        stored are used, everything else waits. The indexer's thread. EmbedderMismatch.
        """
        assert self._model is None and self._publication is None, "not while one is written"
        self._model, self._dimension = model, dimension
        try:
            parts = self.manifest.of("vectors")
            vectors, upto = self._open_vectors(parts[-1] if parts else None)
        except EmbedderMismatch:
            self._model, self._dimension = None, 0
            raise
        assert vectors is not None
        index = self.index
        rows = np.flatnonzero(index.words_in(len(self._state.table.column("born"))))
        embedded = self._take_out_changed(vectors, upto, rows, index.words_upto)
        index.begin_vectors(vectors, embedded)

    def close(self) -> None:
        """Let go of all files; none is being written. What is not published is derived again."""
        if self._publication is not None:
            self.abandon(self._publication)
        if self._folding is not None:
            self.abandon_folding(self._folding)
        self._let_go_of_rows()
        self.index.text.close()

    def _let_go_of_rows(self, but: Set[str] = frozenset()) -> None:
        self._state.bodies = self._log_bodies
        for name in self._open_rows.keys() - but:
            self._open_rows[name].close()  # who still reads from it reads from the log
