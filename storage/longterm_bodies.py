"""What a memory says, read by the position of its record: the seam between table and texts.

The log is one source of bodies. A generation made of it may be another, asked first for what lies
below its end; it must answer exactly what the log would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol

from numpy.typing import NDArray

from neverforget.storage.content import decode_body
from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.log import Log
from neverforget.storage.longterm_fields import M, MemoryField, id_in, id_of, id_text
from neverforget.storage.longterm_results import MemoryView
from neverforget.storage.record import Header, body_of, read_header

Array = NDArray[Any]


class BodySource(Protocol):
    def read(self, position: int) -> tuple[Header, Body]:
        """Header and body of the content record at ``position``. Raises Corrupt."""
        ...

    def read_many(self, positions: Array, fields: Collection[int]) -> Iterator[tuple[int, Body]]:
        """(which, body) of those of many records that can be read, in any order; of the bodies at
        least these ``fields``.
        """
        ...


class LogBodies:
    """``is_erased_at``: of what is to become zeros nothing is read any more, before it is."""

    def __init__(self, log: Log, is_erased_at: Callable[[int], bool]) -> None:
        self._log = log
        self._is_erased_at = is_erased_at

    def read(self, position: int) -> tuple[Header, Body]:
        if self._is_erased_at(position):
            raise Corrupt(f"what stood at position {position} was erased", offset=position)
        record = self._log.read(position)
        return read_header(record), decode_body(body_of(record))

    def read_many(self, positions: Array, fields: Collection[int]) -> Iterator[tuple[int, Body]]:
        return read_each(self, positions)


def read_each(
    bodies: BodySource, positions: Array, which: Iterable[int] | None = None
) -> Iterator[tuple[int, Body]]:
    """``which``: of ``positions``; None: all."""
    for number in range(len(positions)) if which is None else which:
        try:
            yield number, bodies.read(int(positions[number]))[1]
        except Corrupt:
            continue


def view_of(
    header: Header,
    position: int,
    body: Body,
    *,
    status: str,
    born: int,
    tags: tuple[str, ...] | None = None,
) -> MemoryView:
    """The memory as this record has it. ``tags``: today's, if they count. Raises Corrupt."""

    def get(field: MemoryField) -> Any:
        return body.get(M[field])

    try:
        original, span = get(MemoryField.ORIGINAL), get(MemoryField.SPAN)
        return MemoryView(
            id=id_text(id_in(header)),
            text=body[M[MemoryField.TEXT]],
            key=get(MemoryField.KEY),
            type=body[M[MemoryField.TYPE]],
            tags=tuple(get(MemoryField.TAGS) or ()) if tags is None else tags,
            importance=body[M[MemoryField.IMPORTANCE]],
            confidence=body[M[MemoryField.CONFIDENCE]],
            source=get(MemoryField.SOURCE),
            agent=get(MemoryField.AGENT),
            speaker=get(MemoryField.SPEAKER),
            namespace=tuple(get(MemoryField.NAMESPACE) or ()),
            metadata=get(MemoryField.METADATA) or {},
            created_at=body.get(M[MemoryField.CREATED_AT], header.timestamp),
            occurred_at=get(MemoryField.OCCURRED_AT),
            context=get(MemoryField.CONTEXT),
            valid_from=get(MemoryField.VALID_FROM),
            valid_to=get(MemoryField.VALID_TO),
            version=body.get(M[MemoryField.VERSION], 1),
            status=status,
            original=None if original is None else id_text(id_of(original)),
            span=None if span is None else (span[0], span[1]),
            revised_at=header.timestamp,
            by=get(MemoryField.BY),
            position=position,
            born=born,
        )
    except (KeyError, TypeError, IndexError) as error:
        raise Corrupt(f"the record at {position} is no memory: {error!r}") from error
