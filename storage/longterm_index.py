"""Everything a search needs beside the truth: one writer that keeps up with the log, and views.

    index.notice()                    # the owner, after a write: what changed, at once in effect
    index.bring()                     # the indexer: words of what is new, of what is gone
    for one in index.take_waiting(32): ...                   # the indexer: what is to be embedded
        index.embedded(one, vectors)  # or index.failed(one, reason), index.put_back(one)
    view = index.view()               # any thread: it stands still

``notice`` is called by the owner of the region, everything else but ``view`` by one indexer thread
(which may be the same). What is forgotten leaves every view made after ``notice``, whether or not
the indexes have followed; what is new is found when ``bring`` has brought its words, and by meaning
when its vectors are there.

Ids in the indexes are row numbers of the memory table; of vectors, a row and the number of a window
(``vector_id``). They are good as long as the table's rows are the same: ``longterm_generations``
keeps a digest of these with everything that it stores.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_documents import (
    ForgottenTexts,
    document_of,
    namespace_of,
    speaker_of,
)
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_following import changed_since
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.longterm_rows import SearchRows
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_view import LongTermView, vector_ids, vector_ids_of
from neverforget.storage.memory_table import Array
from neverforget.storage.text_index import CONTEXT, TextDocument, TextIndex
from neverforget.storage.vector_index import VectorIndex

_HIDDEN_MAX: Final = 100  # texts that searches look for in what they find, until they are cut out
_NEIGHBOURS_MAX: Final = 1_000  # memories looked at for a forgotten text in their context


class Waiting(NamedTuple):
    """A memory whose vectors are missing, as of the record at ``position``."""

    row: int
    position: int
    text: str
    namespace: Namespace


@dataclass(frozen=True, slots=True)
class _Change:
    """``document`` None: nothing of the row is to be found. ``since``: below it all is noticed."""

    row: int
    position: int
    document: TextDocument | None
    namespace: Namespace
    hidden: str | None  # the text of a row that is forgotten
    since: int


class LongTermIndex:
    """See the module. ``vectors`` None: a store without an embedder."""

    def __init__(
        self, state: LongTermState, text: TextIndex, vectors: VectorIndex | None, *, upto: int
    ) -> None:
        """``upto``: the log position up to which ``text`` is and ``vectors`` may be."""
        self._state = state
        self.text, self.vectors = text, vectors
        self.rows = SearchRows(state.table)
        self.forgotten = ForgottenTexts()
        self._lock = threading.Lock()  # held for moments
        self.upto = upto
        self.erased = False
        self._changes: deque[_Change] = deque()
        self._brought = np.zeros(0, np.uint64)  # by row: position of the record whose words are in
        self._waiting: OrderedDict[int, int] = OrderedDict()  # row -> position, in log order
        self._taken: set[int] = set()
        self._failed: dict[int, str] = {}
        self._view: LongTermView | None = None

    # ---- the owner -------------------------------------------------------------------------------

    def notice(self) -> int:
        """See what was written since the last time: in effect for every view from now on. Returns
        how many memories have changed.
        """
        state = self._state
        changed = changed_since(state, self.upto)
        changes = [self._change(row) for row in changed.rows.tolist()]
        with self._lock:
            self.rows.take(changed.rows)
            self._changes.extend(changes)
            self.upto, self.erased = changed.upto, self.erased or changed.erased
            self._view = None
        return len(changes)

    def _change(self, row: int) -> _Change:
        table = self._state.table
        position, status = table.get(row, "position"), table.get(row, "status")
        living = status in (Status.ACTIVE, Status.ARCHIVED)
        try:
            if status == Status.GONE:
                raise Corrupt("nothing is left of it")
            header, body = self._state.bodies.read(position)
        except Corrupt:
            return _Change(row, position, None, (), None, self.upto)
        self.rows.set_speaker(row, speaker_of(body))
        # What stands in the context of others is cut when the words are brought.
        document = document_of(row, body, header.timestamp, _NOTHING) if living else None
        hidden = body.get(M[MemoryField.TEXT]) if status == Status.FORGOTTEN else None
        return _Change(row, position, document, namespace_of(body), hidden, self.upto)

    # ---- the indexer -----------------------------------------------------------------------------

    def bring(self, limit: int | None = None) -> int:
        """Bring words of up to ``limit`` changed memories. Returns how many are left."""
        done = 0
        while self._changes and (limit is None or done < limit):
            change = self._changes[0]
            self._bring(change)
            done += 1
            with self._lock:
                self._changes.popleft()
                self._view = None
        return len(self._changes)

    def _bring(self, change: _Change) -> None:
        row = change.row
        self._make_room(row + 1)
        if change.hidden is not None:
            self.forgotten.add(row, change.hidden)
            self._cut_from_neighbours(row, change.hidden)
        elif self.forgotten.discard(row):
            self._put_back_into_neighbours()
        if change.document is None:
            self.text.remove([row])
            self._brought[row] = 0
            self._drop_vectors(row)
        elif self._brought[row] != change.position:
            document = change.document
            if document.context and len(self.forgotten):
                cut = self.forgotten.cut_from(document.context)
                document = TextDocument(row, document.text, cut, document.date)
            self.text.add([document])
            self._brought[row] = change.position
            self._drop_vectors(row)
            if self.vectors is not None:
                with self._lock:
                    self._waiting[row] = change.position

    def _drop_vectors(self, row: int) -> None:
        with self._lock:
            self._waiting.pop(row, None)
            self._taken.discard(row)
            self._failed.pop(row, None)
        if self.vectors is not None:
            self.vectors.remove(vector_ids_of(self.vectors.snapshot(), np.array([row])))

    def _cut_from_neighbours(self, row: int, text: str) -> None:
        hits = self.text.snapshot().search(text, _NEIGHBOURS_MAX, field=CONTEXT)
        self._index_again(hits.ids.tolist(), row)

    def _put_back_into_neighbours(self) -> None:
        """Those that it was cut from cannot be found by it: all that have a context are read."""
        table = self._state.table
        self._index_again(np.flatnonzero(table.column("has_context")).tolist(), None)

    def _index_again(self, rows: Iterable[int], because_of: int | None) -> None:
        """Rows whose words are in, where ``because_of`` stands in their context."""
        for row in rows:
            position = int(self._brought[row]) if row < len(self._brought) else 0
            if not position:
                continue
            try:
                header, body = self._state.bodies.read(position)
            except Corrupt:
                continue
            context = str(body.get(M[MemoryField.CONTEXT], ""))
            if because_of is None or self.forgotten.stands_in(because_of, context):
                self.text.add([document_of(row, body, header.timestamp, self.forgotten)])

    @property
    def lag(self) -> int:
        """How many changed memories have their words not in yet."""
        return len(self._changes)

    # ---- vectors ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many memories have no vectors yet, those that failed not counted."""
        return len(self._waiting)

    @property
    def failed_rows(self) -> dict[int, str]:
        """Reasons by row: what could not be embedded. Brought again when the store is opened."""
        return dict(self._failed)

    def take_waiting(self, limit: int) -> list[Waiting]:
        """The oldest that nobody has taken yet, with their texts."""
        taken = []
        with self._lock:
            free = (each for each in self._waiting.items() if each[0] not in self._taken)
            for row, position in list(islice(free, limit)):
                try:
                    _, body = self._state.bodies.read(position)
                except Corrupt as error:
                    self._failed[row] = error.message
                    del self._waiting[row]
                    continue
                self._taken.add(row)
                text = str(body.get(M[MemoryField.TEXT], ""))
                taken.append(Waiting(row, position, text, namespace_of(body)))
        return taken

    def embedded(self, one: Waiting, vectors: Any) -> bool:
        """Take the vectors of its windows, in order. False: it has changed meanwhile, and they
        were dropped. InvalidArgument for what is no vector; it waits on then.
        """
        if self.vectors is None or self._waiting.get(one.row) != one.position:
            return False
        self.vectors.add(vector_ids(one.row, len(vectors)), vectors)
        with self._lock:
            self._waiting.pop(one.row, None)
            self._taken.discard(one.row)
            self._view = None
        return True

    def failed(self, one: Waiting, reason: str) -> None:
        """It cannot be embedded: it is found by words, and waited for no longer."""
        with self._lock:
            if self._waiting.get(one.row) == one.position:
                del self._waiting[one.row]
                self._taken.discard(one.row)
                self._failed[one.row] = reason
                self._view = None

    def put_back(self, one: Waiting) -> None:
        """It was not embedded now; it keeps its place."""
        with self._lock:
            self._taken.discard(one.row)

    # ---- views -----------------------------------------------------------------------------------

    def view(self) -> LongTermView:
        """What there is now, unchanged for as long as it is held. Cheap; any thread."""
        with self._lock:
            if self._view is None:
                words_upto = self._changes[0].since if self._changes else self.upto
                oldest = next(iter(self._waiting.values()), words_upto)
                self._view = LongTermView(
                    rows=self.rows.view(),
                    text=self.text.snapshot(),
                    vectors=None if self.vectors is None else self.vectors.snapshot(),
                    bodies=self._state.bodies,
                    words_upto=words_upto,
                    vectors_upto=min(oldest, words_upto),
                    waiting=len(self._waiting),
                    failed=len(self._failed),
                    lagging=bool(self._changes),
                    hiding=self._hidden(),
                )
            return self._view

    def _hidden(self) -> ForgottenTexts | None:
        """What is forgotten and not yet cut out of its neighbours."""
        texts = ForgottenTexts()
        for change in self._changes:
            if change.hidden is not None:
                if len(texts) == _HIDDEN_MAX:
                    return None
                texts.add(change.row, change.hidden)
        return texts

    # ---- for opening and rebuilding --------------------------------------------------------------

    def start(self, brought: Array, embedded: Array) -> None:
        """Begin with an index that holds words and vectors of these rows already."""
        table = self._state.table
        self._make_room(table.count)
        self._brought[brought] = table.column("position")[brought]
        if self.vectors is not None:
            missing = np.setdiff1d(brought, embedded)
            positions = table.column("position")[missing]
            for at in np.argsort(positions):
                self._waiting[int(missing[at])] = int(positions[at])
        with self._lock:
            self.rows.take(np.arange(table.count))
            self._view = None

    def change_text(self, text: TextIndex) -> None:
        """Go over to another text index that holds the same."""
        with self._lock:
            self.text, self._view = text, None

    def _make_room(self, count: int) -> None:
        if count > len(self._brought):
            grown = np.zeros(max(count, 2 * len(self._brought), 256), np.uint64)
            grown[: len(self._brought)] = self._brought
            self._brought = grown


_NOTHING: Final = ForgottenTexts()
