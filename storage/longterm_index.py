"""Everything a search needs beside the truth: one writer that keeps up with the log, and views.

    index.notice()                    # the owner, after a write: what changed, at once in effect
    index.bring()                     # the indexer: words of what is new, of what is gone
    for one in index.take_waiting(32): ...                   # the indexer: what is to be embedded
        index.embedded(one, vectors)  # or index.failed(one, reason), index.put_back(one)
    view = index.view()               # any thread: it stands still

``notice`` is called by the owner of the region, everything else but ``view`` by one indexer thread
(which may be the same). Reading texts is left to the indexer. What is forgotten leaves every view
made after ``notice``, whether or not the indexes have followed; what is new is found when ``bring``
has brought its words, and by meaning when its vectors are there.

Ids in the indexes are row numbers of the memory table; of vectors, a row and the number of a window
(``vector_id``). They are good as long as the table's rows are the same: ``longterm_generations``
keeps a digest of these with everything that it stores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_changes import Change, Changes
from neverforget.storage.longterm_documents import ForgottenTexts, document_of, quotable_text
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_following import changed_since
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_rows import SearchRows
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_view import LongTermView, vector_ids_of
from neverforget.storage.longterm_waiting import Waiting, WaitingForVectors
from neverforget.storage.memory_table import NO_ROW, Array
from neverforget.storage.quotes import Quotes, stands_in
from neverforget.storage.record import Header
from neverforget.storage.text_index import CONTEXT, PAUSE_DOCUMENTS, TextDocument, TextIndex
from neverforget.storage.vector_index import VectorIndex

__all__ = ["LongTermIndex", "Waiting"]

_HIDDEN_MAX: Final = 100  # texts that searches look for in what they find, until they are cut out
_TURNED_MAX: Final = 8  # forgotten or restored one by one; more of them in one pass
_NEIGHBOURS_MAX: Final = 1_000  # memories looked at for a forgotten text in their context


class LongTermIndex(WaitingForVectors):
    """See the module. ``vectors`` None: a store without an embedder, or with one of which nobody
    knows yet what its vectors are like; then what waits for them is counted.
    """

    def __init__(
        self,
        state: LongTermState,
        text: TextIndex,
        vectors: VectorIndex | None,
        *,
        upto: int,
        expects_vectors: bool = False,
    ) -> None:
        """``upto``: the log position up to which ``text`` is and ``vectors`` may be."""
        super().__init__(expects_vectors or vectors is not None)
        self._state = state
        self.text, self.vectors = text, vectors
        self.rows = SearchRows(state.table)
        self.forgotten = ForgottenTexts()
        self._lock = threading.Lock()  # held for moments
        self.upto = upto
        self.erasures = self.erasures_cleared = 0  # noticed, and those that no file holds any more
        self._kept: dict[int, TextDocument | None] | None = None
        self._changes = Changes()
        self._looked_at = 0  # changes at the left end, for texts that turn up in contexts
        self._brought = np.zeros(0, np.uint64)  # by row: position of the record whose words are in
        self._view: LongTermView | None = None

    # ---- the owner -------------------------------------------------------------------------------

    def notice(self) -> int:
        """See what was written since the last time: in effect for every view from now on. Returns
        how many memories have changed.
        """
        state = self._state
        changed = changed_since(state, self.upto)
        if changed.upto == self.upto:
            return 0
        # In the order of the log: the first that waits for vectors stands for all of them in
        # ``vectors_upto``.
        table = state.table
        rows = changed.rows[np.argsort(table.column("position")[changed.rows])]
        positions, statuses = table.column("position")[rows], table.column("status")[rows]
        forgotten = (statuses == Status.FORGOTTEN) & (table.column("original")[rows] == NO_ROW)
        hides = np.flatnonzero(forgotten).tolist()
        few = len(hides) <= _HIDDEN_MAX
        hidden = [(at, self._text_at(int(positions[at])) if few else None) for at in hides]
        with self._lock:
            self.rows.take(changed.rows)
            self._changes.extend(rows, positions, statuses, self.upto, hidden)
            self.upto = changed.upto
            self.erasures += changed.erased
            self._view = None
        return len(rows)

    def _text_at(self, position: int) -> str:
        try:
            return quotable_text(self._state.bodies.read(position)[1])
        except Corrupt:
            return ""

    @property
    def erased(self) -> bool:
        """Whether a file that was stored may hold what has been erased since."""
        return self.erasures > self.erasures_cleared

    # ---- the indexer -----------------------------------------------------------------------------

    def bring(self, limit: int | None = None) -> int:
        """Bring words of up to ``limit`` changed memories. Returns how many are left."""
        done = 0
        self._look_ahead()
        while self.lag and (limit is None or done < limit):
            with self._lock:
                change = self._changes.first()
            self._bring(change)
            done += 1
            with self._lock:
                self._changes.drop_first()
                self._looked_at = max(0, self._looked_at - 1)
                self._view = None
        return self.lag

    def _look_ahead(self) -> None:
        """Where many are forgotten or restored, what quotes them is indexed again once, and not
        once for each of them.
        """
        with self._lock:
            changes = self._changes.columns(self._looked_at)
            self._looked_at = len(self._changes)
        turns = changes["status"] == Status.FORGOTTEN
        turns &= self._state.table.column("original")[changes["row"]] == NO_ROW
        if len(self.forgotten):
            turns |= np.array([self._is_hidden(row) for row in changes["row"].tolist()], bool)
        turned = [Change(*each) for each in changes[turns].tolist()]
        if len(turned) <= _TURNED_MAX:
            return
        affected = Quotes()
        for change in turned:
            held = self.forgotten.text_of(change.row)
            if change.status == Status.FORGOTTEN:
                text = self._text_at(change.position)
                if text.strip() == held:
                    continue
                self.forgotten.add(change.row, text)
            else:
                text = held or ""
                self.forgotten.discard(change.row)
            affected.add(change.row, text)
        going = changes["row"][changes["status"] >= Status.FORGOTTEN]
        rows = np.setdiff1d(np.flatnonzero(self._state.table.column("has_context")), going)
        self._index_again(rows.tolist(), affected.stand_in)

    def _is_hidden(self, row: int) -> bool:
        return self.forgotten.text_of(row) is not None

    def _bring(self, change: Change) -> None:
        row, position = change.row, change.position
        self._make_room(row + 1)
        header, body = self._read(change)
        if change.status == Status.FORGOTTEN and body is not None:
            text = quotable_text(body)
            if text.strip() != (self.forgotten.text_of(row) or ""):
                self.forgotten.add(row, text)
                self._cut_from_neighbours(text)
        elif change.status != Status.FORGOTTEN:
            text = self.forgotten.text_of(row) or ""
            # Of what is purged or erased no context holds a copy any more.
            if self.forgotten.discard(row) and change.status != Status.GONE:
                self._put_back_into_neighbours(text)
        if body is None or header is None or change.status == Status.FORGOTTEN:
            self._take_out(row)
            self._brought[row] = 0
            self._drop_vectors(row)
        elif self._brought[row] != position:
            self._put(document_of(row, body, header.timestamp, self.forgotten))
            if self._brought[row]:  # of what is new there are no vectors
                self._drop_vectors(row)
            self._brought[row] = position
            if self._expects_vectors:
                with self._lock:
                    is_chunk = self._state.original_of(row) is not None
                    self._waiting.put(row, position, is_chunk=is_chunk)

    def _read(self, change: Change) -> tuple[Header, Body] | tuple[None, None]:
        """Nothing of what is gone, or cannot be read."""
        if change.status == Status.GONE:
            return None, None
        try:
            return self._state.bodies.read(change.position)
        except Corrupt:
            return None, None

    def _put(self, document: TextDocument) -> None:
        self.text.add([document])
        if self._kept is not None:
            self._kept[document.id] = document

    def _take_out(self, row: int) -> None:
        self.text.remove([row])
        if self._kept is not None:
            self._kept[row] = None

    def _cut_from_neighbours(self, text: str) -> None:
        hits = self.text.snapshot().search(text, _NEIGHBOURS_MAX, field=CONTEXT)
        self._index_again(hits.ids.tolist(), lambda context: stands_in(text, context))

    def _put_back_into_neighbours(self, text: str) -> None:
        """Those that it was cut from cannot be found by it: all that have a context are read."""
        rows = np.flatnonzero(self._state.table.column("has_context"))
        self._index_again(rows.tolist(), lambda context: stands_in(text, context))

    def _index_again(self, rows: Iterable[int], wanted: Callable[[str], bool]) -> None:
        """Rows whose words are in, and whose context is wanted."""
        for row in rows:
            position = int(self._brought[row]) if row < len(self._brought) else 0
            if not position:
                continue
            try:
                header, body = self._state.bodies.read(position)
            except Corrupt:
                continue
            if wanted(str(body.get(M[MemoryField.CONTEXT], ""))):
                self._put(document_of(row, body, header.timestamp, self.forgotten))

    @property
    def lag(self) -> int:
        """How many changed memories have their words not in yet."""
        with self._lock:
            return len(self._changes)

    # ---- views -----------------------------------------------------------------------------------

    def view(self) -> LongTermView:
        """What there is now, unchanged for as long as it is held. Cheap; any thread."""
        with self._lock:
            if self._view is None:
                words_upto = self._words_upto()
                oldest = self._waiting.oldest
                self._view = LongTermView(
                    rows=self.rows.view(),
                    text=self.text.snapshot(),
                    vectors=None if self.vectors is None else self.vectors.snapshot(),
                    bodies=self._state.bodies,
                    words_upto=words_upto,
                    vectors_upto=words_upto if oldest is None else min(oldest, words_upto),
                    waiting=len(self._waiting),
                    failed=len(self._failed),
                    lagging=bool(self._changes),
                    hiding=self._hidden(),
                )
            return self._view

    def _hidden(self) -> ForgottenTexts | None:
        """What is forgotten and not yet cut out of its neighbours."""
        hidden = self._changes.hidden(_HIDDEN_MAX)
        if hidden is None:
            return None
        texts = ForgottenTexts()
        for row, text in hidden:
            texts.add(row, text)
        return texts

    # ---- for opening and rebuilding --------------------------------------------------------------

    def start(self, moment: Moment, brought: Array, embedded: Array) -> None:
        """Begin with an index that holds words and vectors of these rows already, as they were at
        ``moment``. What came after it is in no view before the first ``notice``.
        """
        self._make_room(moment.count)
        self._brought[brought] = moment.position[brought]
        if self._expects_vectors:
            self._wait_for(np.setdiff1d(brought, embedded))
        with self._lock:
            self.rows.take(np.arange(moment.count))
            self._view = None

    # ---- for storing -----------------------------------------------------------------------------

    @property
    def words_upto(self) -> int:
        """Every write below it can be found by words."""
        with self._lock:  # the owner adds to the changes and to what is looked at in one
            return self._words_upto()

    def _words_upto(self) -> int:
        return self._changes.first().since if self._changes else self.upto

    def words_in(self, count: int) -> Array:
        """By row: the position of the record whose words are in the text index, 0 where none is. A
        copy, of the first ``count`` rows.
        """
        held = np.zeros(count, np.uint64)
        known = min(count, len(self._brought))
        held[:known] = self._brought[:known]
        return held

    def drop_gone(self) -> None:
        """Vectors of what is gone leave before its words are looked at: no fold that begins now is
        to take them to a file. While the owner changes nothing.
        """
        with self._lock:
            changes = self._changes.columns()
        gone = changes["row"][changes["status"] == Status.GONE]
        if len(gone) and self.vectors is not None:
            self.vectors.remove(vector_ids_of(self.vectors.snapshot(), np.unique(gone)))

    def keep_words(self) -> None:
        """Keep what is brought from now on, for a text index that is made beside this one."""
        self._kept = {}

    def change_text(
        self, text: TextIndex | None, pause: Callable[[], object] = lambda: None
    ) -> None:
        """Go over to ``text``, which was made of what was in when ``keep_words`` was called. None:
        stay with the one that there is. ``pause`` is called now and then.
        """
        kept, self._kept = self._kept, None
        if text is None:
            return
        for number, (row, document) in enumerate((kept or {}).items()):
            if number % PAUSE_DOCUMENTS == 0:
                pause()
            if document is None:
                text.remove([row])
            else:
                text.add([document])
        with self._lock:
            self.text, self._view = text, None

    def _make_room(self, count: int) -> None:
        if count > len(self._brought):
            grown = np.zeros(max(count, 2 * len(self._brought), 256), np.uint64)
            grown[: len(self._brought)] = self._brought
            self._brought = grown
