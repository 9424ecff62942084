"""What every format is read into: turns and memories on their way to a store, and what is wrong
with the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory


class Problem(msgspec.Struct, frozen=True):
    """Something in the file that was not imported as it stands, and where."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(slots=True)
class SourceTurn:
    """One turn of a file. ``fields`` are the arguments of ``Session.append``.

    ``seq`` is set when the file says where in its session the turn stood (our own export).
    ``state`` is "ok", "hidden", or for one whose content is gone "erased" or "unreadable".
    """

    session: str
    line: int
    fields: dict[str, Any]
    namespace: tuple[str, ...] = ()
    agent: str | None = None
    seq: int | None = None
    state: str = "ok"


@dataclass(frozen=True, slots=True)
class SourceRelation:
    """``target``: a memory's id, or (namespace, session, first, last) of turns."""

    target: str | tuple[tuple[str, ...], str, int, int]
    kind: str
    weight: float


# There; refused (reported); or forgotten or erased here, and left so.
Outcome = Literal["there", "refused", "gone"]


def _leaves(memory: Memory) -> None:
    return None


def _unheard(outcome: Outcome) -> None: ...


@dataclass(slots=True)
class SourceMemory:
    """One memory of a file. ``fields`` are the arguments of ``Store.remember``.

    ``id``, ``relations``, ``status`` and ``versions`` (the fields of each version before this one,
    oldest first) come from our own export. ``origin`` names what an identity of others belongs to:
    "mem0", whose id is the key. ``puts_right`` is asked about a memory that says something else in
    the store: which changes put it right, {} for none, None for leaving it. ``outcome`` is told
    what became of it.
    """

    line: int
    fields: dict[str, Any]
    namespace: tuple[str, ...] = ()
    id: str | None = None
    status: str = "active"
    versions: list[dict[str, Any]] = field(default_factory=list)
    relations: list[SourceRelation] = field(default_factory=list)
    origin: str = ""
    puts_right: Callable[[Memory], dict[str, Any] | None] = _leaves
    outcome: Callable[[Outcome], None] = _unheard


@dataclass(slots=True)
class Branch:
    """The conversation ``session`` as a whole: ``turns`` from its first message on.

    ``leaf`` names the session to use instead where ``session`` already holds another course of the
    same conversation: an append-only session cannot take back the turns of the branch that was
    current before.
    """

    session: str
    leaf: str
    turns: list[SourceTurn]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value begins: names the file and line in problems."""

    file: str
    line: int

    def problem(self, message: str) -> Problem:
        return Problem(self.file, self.line, message)


@dataclass(frozen=True, slots=True)
class Element:
    """One top-level JSON value of a file. ``offset``: how many bytes of the file have been read
    with it."""

    value: Any
    place: Place
    offset: int = field(default=0)


Parsed = SourceTurn | SourceMemory | Branch | Problem


class Malformed(ValueError):
    """A value that does not have the shape its format asks for."""


def namespace_in(fields: Mapping[str, Any]) -> tuple[str, ...]:
    given = fields.get("namespace") or ()
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, list | tuple) or not all(isinstance(part, str) for part in given):
        raise Malformed("namespace must be a list of texts")
    return tuple(given)


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{name} must be text, not {type(value).__name__}")
    return value
