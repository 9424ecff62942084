"""What memories said that are about to be erased, and whether something else repeats it. Pure.

A text or a key is looked for wherever it may be quoted. The smaller things (a speaker, a source,
values in metadata, tags) are no secrets by themselves: they count where they stand alone in a
filter, or in a reason that was given for this very memory, and only if they are long enough to mean
something, or if no memory is left that has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from neverforget.storage.control import Body
from neverforget.storage.longterm_fields import M, MemoryField, is_derived_type
from neverforget.storage.quotes import Quotes

_CHARACTERS_MIN: Final = 4
_NUMBER_MIN: Final = 10_000  # a smaller one is a count, not somebody's number


class Said:
    """``texts``: of every version, chunks and summaries left out: they repeat it."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self._keys: set[str] = set()
        self._values: set[str | int | float] = set()
        self._words: set[str] = set()
        self._alone: set[str | int | float] = set()
        self._quotes: tuple[Quotes, Quotes] = (Quotes(), Quotes())

    def add(self, body: Body) -> None:
        """The body of one version."""

        def get(field: MemoryField) -> Any:
            return body.get(M[field])

        text, type_name = get(MemoryField.TEXT), get(MemoryField.TYPE)
        if isinstance(text, str) and not (
            isinstance(type_name, str) and is_derived_type(type_name)
        ):
            self.texts.add(text.strip())
        if isinstance(get(MemoryField.KEY), str):
            self._keys.add(get(MemoryField.KEY))
        alone = (MemoryField.SPEAKER, MemoryField.SOURCE, MemoryField.METADATA)
        for field in alone:
            self._values.update(filter(_means_something, leaves_of(get(field))))
        self._words.update(
            each
            for field in (MemoryField.AGENT, MemoryField.TYPE, MemoryField.NAMESPACE)
            for each in leaves_of(get(field))
            if isinstance(each, str)
        )
        self.add_tags(body)

    def add_tags(self, body: Body) -> None:
        held = leaves_of(body.get(M[MemoryField.TAGS]))
        self._words.update(tag for tag in held if isinstance(tag, str))

    def all_is_said(self, words_left: set[str]) -> None:
        """To be called before it is asked. ``words_left``: tags, agents, types and names that
        others have too.
        """
        loud: set[str | int | float] = {*self.texts, *self._keys}
        quiet = self._values | (self._words - words_left)
        self._alone = loud | quiet
        self._quotes = Quotes(map(str, loud)), Quotes(str(each) for each in quiet)

    def is_filtered_by(self, filter_said: Any) -> bool:
        """Whether a filter asked for it."""
        return any(each in self._alone for each in leaves_of(filter_said))

    def is_quoted_in(self, reason: str, *, all_of_it: bool) -> bool:
        """``all_of_it``: the smaller things too."""
        loud, quiet = self._quotes
        return loud.stand_in(reason) or (all_of_it and quiet.stand_in(reason))


def leaves_of(value: Any) -> Iterator[Any]:
    """Every text and number in plain content."""
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
