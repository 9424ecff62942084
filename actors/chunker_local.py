"""A chunker in a thread of this process, for a store that is inline.

Its thread cannot be niced, so it works in slices: after each document it pauses for as long as that
took, up to a second: of what took longer most was waiting. It cannot be ended either: while one
hangs in a document, no other is begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from neverforget.actors.chunker_spec import Chunked, ChunkerSpec, Document
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.chunker import Chunker
    from neverforget.actors.summarizer_contract import Summarizer

PAUSE_S_MAX: Final = 1.0


class LocalChunkers:
    """Call it for a ``Member`` (see chunker_pool.py). ``make`` makes a chunker."""

    def __init__(self, make: Callable[[], Chunker]) -> None:
        self._make = make
        self._members: list[LocalMember] = []
        self._lock = threading.Lock()

    def __call__(self) -> LocalMember:
        with self._lock:
            self._members = [one for one in self._members if one.at_work or not one.ended]
            if any(one.ended for one in self._members):
                raise Unavailable("one hangs in a text still", outcome="not_applied")
            member = LocalMember(self._make)
            self._members.append(member)
        return member


class LocalMember:
    def __init__(self, make: Callable[[], Chunker]) -> None:
        self.at_work = False
        self._make = make
        self._chunker: Chunker | None = None
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def ready(self) -> None:
        self._chunker = self._make()

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        assert self._chunker is not None
        found: list[Chunked] = []
        self.at_work = True
        try:
            for one in documents:
                started = time.monotonic()
                found += self._chunker.chunk([one])
                if self._ended.wait(pause_after(time.monotonic() - started)):
                    raise Unavailable("the chunker was ended", outcome="not_applied")
        finally:
            self.at_work = False
        return found

    def end(self) -> None:
        self._ended.set()


def pause_after(took_s: float) -> float:
    return min(took_s, PAUSE_S_MAX)


def local_chunkers(spec: ChunkerSpec, summarizer: Summarizer | None = None) -> LocalChunkers:
    """``summarizer``: where it is an object. Loads what splits when the first one is needed."""
    if summarizer is not None:
        spec = spec._replace(make=lambda _name: summarizer)

    def make() -> Chunker:
        from neverforget.actors.chunker import Chunker

        return Chunker(spec)

    return LocalChunkers(make)
