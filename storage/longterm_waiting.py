"""What waits for its vectors: taken by whoever embeds, given back with or without. Memories go in
log order, and before all chunks: a long one is found by its own vectors before it is by theirs, and
the many chunks of a few long memories hold up nobody who remembers a short one.

The part of ``LongTermIndex`` that the embedder feeds. The indexer's thread calls it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_documents import namespace_of, text_to_index
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_view import LongTermView, vector_ids, vector_ids_of
from neverforget.storage.memory_table import NO_ROW, Array
from neverforget.storage.vector_index import VectorIndex


class Waiting(NamedTuple):
    """A memory whose vectors are missing, as of the record at ``position``. ``text``: what is to be
    embedded; of a chunk behind a line that says where in its original it stands.
    """

    row: int
    position: int
    text: str
    namespace: Namespace


class Lanes:
    """Row -> position of what waits; each lane in log order."""

    def __init__(self) -> None:
        self._memories: OrderedDict[int, int] = OrderedDict()
        self._chunks: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._memories) + len(self._chunks)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """All of them, in the order in which they are taken."""
        return chain(self._memories.items(), self._chunks.items())

    @property
    def oldest(self) -> int | None:
        """Position of the first memory that is no chunk."""
        return next(iter(self._memories.values()), None)

    def get(self, row: int) -> int | None:
        found = self._memories.get(row)
        return self._chunks.get(row) if found is None else found

    def put(self, row: int, position: int, *, is_chunk: bool) -> None:
        (self._chunks if is_chunk else self._memories)[row] = position

    def drop(self, row: int) -> None:
        self._memories.pop(row, None)
        self._chunks.pop(row, None)


class WaitingForVectors:
    """``vectors`` None: nothing is handed out, and what waits is counted if they are expected."""

    vectors: VectorIndex | None
    _state: LongTermState
    _lock: threading.Lock
    _view: LongTermView | None
    _brought: Array

    def __init__(self, expected: bool) -> None:
        self._expects_vectors = expected
        self._waiting = Lanes()
        self._taken: set[int] = set()
        self._failed: dict[int, str] = {}

    @property
    def waiting(self) -> int:
        """How many memories have no vectors yet, those that failed not counted."""
        return len(self._waiting)

    @property
    def failed_rows(self) -> dict[int, str]:
        """Reasons by row: what could not be embedded. Brought again when the store is opened."""
        return dict(self._failed)

    def take_waiting(self, limit: int, characters_max: int | None = None) -> list[Waiting]:
        """The oldest that nobody has taken yet, with their texts; of ``characters_max`` together,
        or one. An empty answer: nothing is left to be taken.
        """
        taken: list[Waiting] = []
        # Of those that are looked at all may be blank, or unreadable: they wait no more.
        while not taken and (chosen := self._free(limit)):
            taken = self._read_some(chosen, characters_max)
        with self._lock:
            self._taken.update(one.row for one in taken)
        return taken

    def _free(self, limit: int) -> list[tuple[int, int]]:
        if self.vectors is None:
            return []
        with self._lock:
            free = (each for each in self._waiting if each[0] not in self._taken)
            return list(islice(free, limit))

    def _read_some(
        self, chosen: list[tuple[int, int]], characters_max: int | None
    ) -> list[Waiting]:
        found: list[Waiting] = []
        characters = 0
        for row, position in chosen:
            one = self._read_waiting(row, position)
            if one is None:
                continue
            characters += len(one.text)
            if found and characters_max is not None and characters > characters_max:
                break
            found.append(one)
        return found

    def _read_waiting(self, row: int, position: int) -> Waiting | None:
        """None: it cannot be read, and has failed; or it is a chunk of blanks."""
        try:
            _, body = self._state.bodies.read(position)
        except Corrupt as error:
            self.failed(Waiting(row, position, "", ()), error.message)
            return None
        one = Waiting(row, position, text_to_index(body), namespace_of(body))
        if one.text.strip():
            return one
        self._stop_waiting(one)
        return None

    def is_waiting(self, one: Waiting) -> bool:
        """False: it has changed since it was taken, or is gone."""
        return self._waiting.get(one.row) == one.position

    def read_again(self, one: Waiting) -> Waiting | None:
        """With its text, which whoever took it has let go of. None: it does not wait any more."""
        return self._read_waiting(one.row, one.position) if self.is_waiting(one) else None

    def embedded(self, one: Waiting, vectors: Any) -> bool:
        """Take the vectors of its windows, in order. False: it has changed meanwhile, and they
        were dropped. InvalidArgument for what is no vector; it waits on then.
        """
        if self.vectors is None or not self.is_waiting(one):
            return False
        self.vectors.add(vector_ids(one.row, len(vectors)), vectors)
        with self._lock:
            self._waiting.drop(one.row)
            self._taken.discard(one.row)
            self._view = None
        return True

    def failed(self, one: Waiting, reason: str) -> None:
        """It cannot be embedded: it is found by words, and waited for no longer."""
        self._stop_waiting(one, reason)

    def _stop_waiting(self, one: Waiting, reason: str | None = None) -> None:
        with self._lock:
            if self.is_waiting(one):
                self._waiting.drop(one.row)
                self._taken.discard(one.row)
                self._view = None
                if reason is not None:
                    self._failed[one.row] = reason

    def put_back(self, one: Waiting) -> None:
        """It was not embedded now; it keeps its place."""
        with self._lock:
            self._taken.discard(one.row)

    def begin_vectors(self, vectors: VectorIndex, embedded: Array) -> None:
        """It is known now what the vectors are like; those of the rows ``embedded`` are there."""
        waiting = self._in_order(np.setdiff1d(np.flatnonzero(self._brought), embedded))
        with self._lock:
            self.vectors, self._expects_vectors = vectors, True
            self._waiting, self._view = waiting, None

    def _wait_for(self, rows: Array) -> None:
        """Where nothing waits yet."""
        waiting = self._in_order(rows)
        with self._lock:
            self._waiting, self._view = waiting, None

    def _in_order(self, rows: Array) -> Lanes:
        """Made without the lock, so that nobody waits for it, and whole: to a view that saw some of
        them only, the others would seem to be embedded.
        """
        rows = rows[np.argsort(self._brought[rows])]
        are_chunks = self._state.table.column("original")[rows] != NO_ROW
        lanes = Lanes()
        for row, position, is_chunk in zip(
            rows.tolist(), self._brought[rows].tolist(), are_chunks.tolist()
        ):
            lanes.put(row, position, is_chunk=is_chunk)
        return lanes

    def _drop_vectors(self, row: int) -> None:
        with self._lock:
            self._waiting.drop(row)
            self._taken.discard(row)
            self._failed.pop(row, None)
        if self.vectors is not None:
            self.vectors.remove(vector_ids_of(self.vectors.snapshot(), np.array([row])))
