"""Ranges of one session's turns whose reflection was given up. Pure, no I/O."""

from __future__ import annotations

from typing import NamedTuple

from neverforget.storage.runs import Runs


class DeadLetter(NamedTuple):
    """``position`` of its record, ``error_at`` of the one that holds the error's text."""

    first: int
    last: int
    extractor: str
    tries: int
    at: int
    position: int
    error_at: int


class DeadLetters:
    """Of a session that has any. They never overlap: the newest failure of a turn counts.
    ``covered``: turns that do not wait, because they are consolidated or given up; ``_failed``:
    those of the letters.
    """

    __slots__ = ("_failed", "covered", "letters")

    def __init__(self, marks: Runs) -> None:
        self.covered = Runs(marks)
        self.letters: list[DeadLetter] = []
        self._failed = Runs()

    def add(self, letter: DeadLetter) -> None:
        self._take_out(letter.first, letter.last)
        self.letters.append(letter)
        self._failed.add(letter.first, letter.last)
        self.covered.add(letter.first, letter.last)

    def consolidated(self, first: int, last: int) -> None:
        """These turns are done after all, or done again."""
        self._take_out(first, last)
        self.covered.add(first, last)

    def _take_out(self, first: int, last: int) -> None:
        if next(self._failed.within(first, last + 1), None) is None:
            return  # most of the time, and there may be thousands of them
        self._failed.remove(first, last)
        kept: list[DeadLetter] = []
        for letter in self.letters:
            if letter.last < first or letter.first > last:
                kept.append(letter)
                continue
            if letter.first < first:
                kept.append(letter._replace(last=first - 1))
            if letter.last > last:
                kept.append(letter._replace(first=last + 1))
        self.letters = kept
