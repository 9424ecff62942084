"""What the text index is given of a memory, and what of it is held back.

A forgotten memory's text may stand in others as their ``context``: while it is forgotten it is cut
out of what is indexed of them, so that it is not found through its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from neverforget.storage.control import Body
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.quotes import Quotes
from neverforget.storage.text_analysis import date_words
from neverforget.storage.text_document import TextDocument

QUOTED_CHARACTERS_MIN: Final = 80  # of a chunk or summary that others are taken to quote
_LABEL_CHARACTERS_MAX: Final = 200


class ForgottenTexts:
    """Texts of the memories that are forgotten now, by row. Whole words are meant: forgetting "Yes"
    takes nothing out of "Yesterday".
    """

    def __init__(self) -> None:
        self._texts = Quotes()

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, row: int, text: str) -> None:
        self._texts.add(row, text)

    def discard(self, row: int) -> bool:
        return self._texts.discard(row)

    def text_of(self, row: int) -> str | None:
        """None for a row that is not forgotten, or says nothing."""
        return self._texts.text_of(row)

    def cut_from(self, context: str) -> str:
        return self._texts.cut_from(context)

    def stand_in(self, context: str) -> bool:
        """Whether any of them does."""
        return self._texts.stand_in(context)


def document_of(row: int, body: Body, timestamp_us: int, forgotten: ForgottenTexts) -> TextDocument:
    """``timestamp_us``: of the record, for a memory that says nothing of its time. Title and
    headings of a chunk are words of its own: as a context, which counts as much as the text,
    any chunk whose heading has a word of the query came before what answers it.
    """
    place = namespace_of(body)
    derived = M[MemoryField.ORIGINAL] in body
    context = "" if derived else _text(body.get(M[MemoryField.CONTEXT]))
    when = body.get(M[MemoryField.OCCURRED_AT])
    if when is None:
        when = body.get(M[MemoryField.CREATED_AT], timestamp_us)
    return TextDocument(
        row,
        text_to_index(body),
        forgotten.cut_from(context) if context and len(forgotten) else context,
        _date(when),
        tuple(namespace_label(place[:length]) for length in range(1, len(place) + 1)),
    )


def quotable_text(body: Body) -> str:
    """What may stand in others as their context. Chunks and summaries only repeat their original:
    a short one, "Thanks!", would be cut out of contexts that have nothing to do with it.
    """
    return "" if M[MemoryField.ORIGINAL] in body else _text(body.get(M[MemoryField.TEXT]))


def text_to_index(body: Body) -> str:
    """What is embedded, and indexed as a memory's own words: of a chunk with its title and headings
    in front, since by itself it may not say what it is about.
    """
    text, context = _text(body.get(M[MemoryField.TEXT])), _text(body.get(M[MemoryField.CONTEXT]))
    return f"{context}\n{text}" if context and M[MemoryField.ORIGINAL] in body else text


def namespace_label(namespace: Namespace) -> str:
    """What everything in a namespace or below it is labelled with. Two may share one: it narrows a
    search, and what it finds is asked for its namespace all the same.
    """
    return ("n:" + "/".join(namespace))[:_LABEL_CHARACTERS_MAX]


def namespace_of(body: Body) -> Namespace:
    held: Iterable[str] = body.get(M[MemoryField.NAMESPACE], ())
    return tuple(held)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _date(at_us: int) -> str:
    try:
        return date_words(at_us)
    except (OverflowError, ValueError):  # before year 1, after 9999: no day that people speak of
        return ""
