"""What memories said that are about to be erased, and whether something else repeats it. Pure.

A text or a key is looked for wherever it may be quoted. The smaller things (a speaker, a source,
values in metadata, tags) are no secrets by themselves: they count where they stand alone in a
filter, or in a reason that was given for this very memory, and only if they are long enough to mean
something, or if no memory is left that has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.longterm_documents import QUOTED_CHARACTERS_MIN
from neverforget.storage.longterm_fields import M, MemoryField, is_derived_type
from neverforget.storage.memory_table import Array, MemoryTable
from neverforget.storage.quotes import Quotes
from neverforget.storage.slices import Slices

_CHARACTERS_MIN: Final = 4
_NUMBER_MIN: Final = 10_000  # a smaller one is a count, not somebody's number
_SLICE: Final = 256  # texts taken into a list of them between two yields
_TEXT, _TYPE, _KEY = M[MemoryField.TEXT], M[MemoryField.TYPE], M[MemoryField.KEY]
_VALUES: Final = (M[MemoryField.SPEAKER], M[MemoryField.SOURCE], M[MemoryField.METADATA])
_WORDS: Final = (
    M[MemoryField.AGENT],
    M[MemoryField.TYPE],
    M[MemoryField.NAMESPACE],
    M[MemoryField.TAGS],
)


class Said:
    """``texts``: of every version, and of chunks and summaries that are too long to stand elsewhere
    by accident.
    """

    def __init__(self) -> None:
        self.texts = Quotes()
        self._fresh: list[str] = []
        self._keys: set[str] = set()
        self._values: set[str | int | float] = set()
        self._words: set[str] = set()
        self._quiet: set[str | int | float] = set()
        self._quotes: tuple[Quotes, Quotes] = (Quotes(), Quotes())

    @property
    def size(self) -> int:
        """Another one, when there is more that was said."""
        return len(self.texts) + len(self._keys) + len(self._values) + len(self._words)

    def take_fresh(self) -> list[str]:
        """The texts that were added since the last time."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def add(self, body: Body, *, everything: bool = True, original_stays: bool = False) -> None:
        """The body of one version. ``everything`` False: its text alone. ``original_stays``: what
        that says is repeated here, and is no secret.
        """
        text, type_name = body.get(_TEXT), body.get(_TYPE)
        if isinstance(text, str):
            text = text.strip()
            derived = isinstance(type_name, str) and is_derived_type(type_name)
            least = QUOTED_CHARACTERS_MIN if derived else 1
            if len(text) >= least and not original_stays and text not in self.texts:
                self.texts.add(len(self.texts), text)
                self._fresh.append(text)
        if not everything:
            return
        if isinstance(body.get(_KEY), str):
            self._keys.add(body[_KEY])
        for field in _VALUES:
            if field in body:
                self._values.update(filter(_means_something, leaves_of(body[field])))
        for field in _WORDS:
            if field in body:
                self._words.update(each for each in leaves_of(body[field]) if type(each) is str)

    def add_tags(self, body: Body) -> None:
        held = leaves_of(body.get(M[MemoryField.TAGS]))
        self._words.update(tag for tag in held if isinstance(tag, str))

    def all_is_said(self, words_left: set[str]) -> Slices[None]:
        """To be called before it is asked. ``words_left``: tags, agents, types and names that
        others have too.
        """
        self._quiet = self._values | (self._words - words_left)
        self._quotes = Quotes(), Quotes()
        for quotes, said in zip(self._quotes, (self._keys, list(self._quiet))):
            for number, each in enumerate(said):
                quotes.add(number, str(each))
                if number % _SLICE == _SLICE - 1:
                    yield

    def is_filtered_by(self, filter_said: Any) -> bool:
        """Whether a filter asked for it."""
        said = (self.texts, self._keys, self._quiet)
        return any(each in some for each in leaves_of(filter_said) for some in said)

    def is_quoted_in(self, reason: str, *, all_of_it: bool) -> bool:
        """``all_of_it``: the smaller things too."""
        keys, quiet = self._quotes
        loud = self.texts.stand_in(reason) or keys.stand_in(reason)
        return loud or (all_of_it and quiet.stand_in(reason))


def leaves_of(value: Any) -> Iterator[Any]:
    """Every text and number in plain content."""
    if type(value) is str:
        yield value
        return
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one
        elif isinstance(one, (str, int, float)) and not isinstance(one, bool):
            yield one


def _means_something(value: str | int | float) -> bool:
    if isinstance(value, str):
        return len(value) >= _CHARACTERS_MIN
    return abs(value) >= _NUMBER_MIN


def words_of(table: MemoryTable, rows: Array) -> set[str]:
    """Tags, agents, types and names of namespaces of these rows, a truth value each."""

    def values(column: str, held: Any) -> list[Any]:
        return [held.values[code] for code in np.unique(table.column(column)[rows]).tolist()]

    words = {tag for tags in values("tags", table.tags) for tag in tags}
    words.update(name for names in values("namespace", table.namespaces) for name in names)
    words.update(agent for agent in values("agent", table.agents) if agent is not None)
    words.update(values("type", table.types))
    return words
