"""What the public API returns: frozen values with aware UTC datetimes.

Namespaces in values are absolute, from the store's root, whatever view they were read through. They
are ``Namespace`` tuples: a view takes such a one as it stands and does not prepend its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from msgspec import Struct

from neverforget.storage.results import TurnState

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Role(StrEnum):
    """The roles that neverforget knows; any other text is a role too, and kept as it is."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    THOUGHT = "thought"


class Confirmation(Enum):
    """``confirm=nf.CONFIRMED`` is the only way to say that a deletion is meant."""

    CONFIRMED = "confirmed"


CONFIRMED = Confirmation.CONFIRMED


class Namespace(tuple[str, ...]):
    """An absolute namespace, as values carry it. Equal to the plain tuple; its slices and sums are
    absolute again.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> Namespace: ...
    def __getitem__(self, index: Any, /) -> Any:
        found = tuple.__getitem__(self, index)
        return Namespace(found) if isinstance(index, slice) else found

    def __add__(self, other: tuple[Any, ...], /) -> Namespace:
        return Namespace(tuple.__add__(self, other))


ROOT = Namespace()


class Turn(Struct, frozen=True):
    """One turn of a session.

    seq: 0, 1, 2, … within the session, without a gap; it alone orders turns.
    content: text, bytes or JSON-like data, equal to what was appended; None when ``state`` is
        erased or unreadable.
    agent: who appended it; ``name``: who speaks, where the writer said so.
    timestamp: aware UTC; 1970-01-01 where an unreadable turn's is lost.
    token_count: tokens of the content: the writer's number, else the store's tokenizer's.
    consolidated: long-term memories were made of it.
    state: "ok", "hidden", "erased" or "unreadable".
    salvaged_from: (epoch, seq) that it had first, where its owner was lost after acknowledging it
        and it was brought back later; else None.
    """

    namespace: tuple[str, ...]
    session: str
    seq: int
    role: str
    content: Any
    name: str | None
    agent: str | None
    call_id: str | None
    key: str | None
    metadata: dict[str, Any]
    timestamp: datetime
    token_count: int
    consolidated: bool
    state: TurnState
    salvaged_from: tuple[int, int] | None = None

    def __hash__(self) -> int:
        return hash((self.namespace, self.session, self.seq))


class SessionInfo(Struct, frozen=True):
    """A session in figures. ``turns`` counts all, hidden and erased ones too: the next turn gets
    that seq. ``tokens`` is their sum. An unknown session has zeros and None.
    """

    namespace: tuple[str, ...]
    session: str
    agents: tuple[str, ...]
    turns: int
    tokens: int
    first_at: datetime | None
    last_at: datetime | None
    consolidated_through: int


class Page(Struct, Generic[T], frozen=True):
    """Some of a listing, a sequence over its ``items``.

    next: cursor to pass as ``after``; usable at the end too, to poll for what comes later.
    previous: cursor to pass as ``before`` where that exists; None at the beginning.
    has_more: more lies beyond, in the direction that was read.
    """

    items: tuple[T, ...]
    next: str
    previous: str | None = None
    has_more: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self.items

    @overload
    def __getitem__(self, index: int, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[T, ...]: ...
    def __getitem__(self, index: Any, /) -> Any:
        return self.items[index]

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Position of ``value`` among the items; ValueError where it is not."""
        return self.items.index(value, start, len(self.items) if stop is None else stop)

    def count(self, value: Any) -> int:
        """How many of the items equal ``value``."""
        return self.items.count(value)


Sequence.register(Page)


class TurnRef(Struct, frozen=True):
    """Turns ``first`` to ``last`` (both included) of a session, by name."""

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int


class AuditEntry(Struct, frozen=True):
    """One thing on the record: who hid, unhid or erased what, when and why, or was refused.

    operation: "hide", "unhide", "fork", "erase", "forget-refused", "chunk", …
    target: what it was done to, e.g. {"namespace": […], "session": "…", "seqs": [[first, last]]}.
    key: the target's key, where it is one item that has one.
    """

    operation: str
    target: dict[str, Any]
    key: str | None
    by: str
    at: datetime
    reason: str | None
    details: dict[str, Any]

    def __hash__(self) -> int:
        return hash((self.operation, self.by, self.at))


class ErasureReport(Struct, frozen=True):
    """What an erasure zeroed.

    turns, bytes: bodies of turns, and bytes of bodies of any kind. sessions, memories: how many
        went as a whole; chunks and summaries are not counted.
    unreachable: copies that are beyond its reach (exports, backups), in words.
    flagged: ids of memories that were derived from what was erased, but not only from it.
    revised: ids of memories from whose ``context`` an erased text was taken out.
    """

    turns: int
    bytes: int
    unreachable: tuple[str, ...]
    at: datetime
    sessions: int = 0
    memories: int = 0
    flagged: tuple[str, ...] = ()
    revised: tuple[str, ...] = ()
