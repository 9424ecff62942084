"""Texts that are too long for one request to an embedder: one after the other, part by part.

A text of 5 MB has some ten thousand windows, minutes of work: in a batch with others it would hold
them up, and at its deadline all of it would be lost. So it is brought in parts, each of them a
request of its own between those of short texts. Each part overlaps the one before it.

The indexer calls it all. Of the texts that wait here only the one that is being brought is held in
memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from neverforget.storage.longterm_index import LongTermIndex, Waiting

PART_CHARACTERS: Final = 65_536
_OVERLAP: Final = 256
_NEAR: Final = 1_024  # a part ends between two words where there is a space within so many


def parts_of(text: str) -> list[str]:
    """All of ``text``, in order; one part where it is short enough."""
    parts = []
    start = 0
    while len(text) - start > PART_CHARACTERS:
        stop = start + PART_CHARACTERS
        stop = max(text.rfind(" ", stop - _NEAR, stop), stop - _NEAR)
        parts.append(text[start:stop])
        begin = stop - _OVERLAP
        start = max(begin, text.find(" ", begin, stop) + 1)
    return [*parts, text[start:]]


class LongTexts:
    """``prepare`` makes of a memory what is embedded of it."""

    def __init__(self, prepare: Callable[[list[Waiting]], list[str]]) -> None:
        self._prepare = prepare
        self._aside: deque[Waiting] = deque()  # without their texts
        self.current: Waiting | None = None  # without its text, too
        self._parts: deque[str] = deque()
        self._vectors: list[Any] = []

    @staticmethod
    def is_one(one: Waiting) -> bool:
        return len(one.text) > PART_CHARACTERS

    def set_aside(self, one: Waiting) -> None:
        self._aside.append(one._replace(text=""))

    def part(self, index: LongTermIndex) -> str | None:
        """What to bring next; the same again until ``done`` says what became of it."""
        while not self._parts:
            if not self._aside:
                return None
            held = self._aside.popleft()
            one = index.read_again(held)
            if one is not None:
                self.current = held
                self._parts.extend(parts_of(self._prepare([one])[0]))
        return self._parts[0]

    def done(self, index: LongTermIndex, vectors: Any) -> None:
        """The part has its vectors. With the last one the memory has all of them. Raises
        InvalidArgument for what is no vector.
        """
        assert self.current is not None
        self._parts.popleft()
        self._vectors.append(vectors)
        if self._parts and index.is_waiting(self.current):
            return
        one, found = self.current, np.concatenate(self._vectors)
        self._let_go()
        index.embedded(one, found)  # which one that has changed meanwhile does not take

    def failed(self) -> Waiting:
        """It cannot be embedded, and is forgotten here."""
        assert self.current is not None
        one = self.current
        self._let_go()
        return one

    def _let_go(self) -> None:
        self.current = None
        self._parts.clear()
        self._vectors = []
