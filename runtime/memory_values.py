"""What the long-term API returns: memories, hits, relations, deletion reports. Frozen; times are
aware UTC datetimes, namespaces absolute. Printed, each is a short line.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from neverforget.runtime.values import AuditEntry, TurnRef

MemoryStatus = Literal["active", "archived", "forgotten", "unreadable"]
_TEXT_SHOWN_MAX = 72
_HITS_SHOWN_MAX = 20


class Memory(Struct, frozen=True):
    """A long-term memory, in one of its versions.

    id: a UUIDv7 in canonical text; ``key``: the caller's name for it, unique in its namespace.
    text: what is remembered; "" where ``status`` is unreadable. type: "fact" unless said.
    tags: hierarchical, like "ai:llm"; as they are today for the current version.
    importance: 0 to 10; confidence: 0 to 1.
    source: where it is from; agent: who remembered it; speaker: whose words it holds.
    created_at: of version 1; occurred_at: of what it tells; valid_from, valid_to: when it is true.
    version: 1, 2, …, written at ``revised_at`` by ``by``.
    status: "active", "archived", "forgotten" (can be undone), or "unreadable" (damaged on disk).
    context: the neighbouring text that it is also found by.
    """

    id: str
    key: str | None
    text: str
    type: str
    tags: tuple[str, ...]
    importance: float
    confidence: float
    source: str | None
    agent: str | None
    speaker: str | None
    namespace: tuple[str, ...]
    metadata: dict[str, Any]
    created_at: datetime
    occurred_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    version: int
    status: MemoryStatus
    context: str | None
    revised_at: datetime
    by: str | None

    def __hash__(self) -> int:
        return hash((self.id, self.version))

    def __repr__(self) -> str:
        said = [repr(shortened(self.text)), f"id={self.id!r}"]
        if self.key is not None:
            said.append(f"key={shortened(self.key)!r}")
        if self.type != "fact":
            said.append(f"type={self.type!r}")
        if self.tags:
            said.append(f"tags={self.tags!r}")
        if self.namespace:
            said.append(f"namespace={tuple(self.namespace)!r}")
        if self.version != 1:
            said.append(f"version={self.version}")
        if self.status != "active":
            said.append(f"status={self.status!r}")
        return f"Memory({', '.join(said)})"


class Chunk(Struct, frozen=True):
    """The part of a memory that was found: characters ``start`` up to ``stop`` of its text. Of a
    summary, which stands for the whole, both are None.
    """

    id: str
    start: int | None
    stop: int | None
    text: str

    def __repr__(self) -> str:
        return f"Chunk({shortened(self.text)!r}, start={self.start}, stop={self.stop})"


class Hit(Struct, frozen=True):
    """A memory that a recall found.

    score: what the hits are sorted by; under the weighted fusion 0 to 1, and a little more where
        the query names the speaker.
    sources: which searches found it ("text", "context", "vector"), and at which rank, 1 the best.
    chunk: where in a long memory it was found, None for the memory itself.
    arithmetic: how the score came about, if ``explain=True`` was said: ``legs`` by name, ``boost``
        of the speaker, ``past``, which is what it loses for not being valid now, or gets for
        holding in the place of something that matches better, ``lift`` of a best match into the
        first ten, ``score``, and ``text`` for reading.
    duplicates: ids of other memories with the very same text, which this hit stands for.
    """

    memory: Memory
    score: float
    sources: dict[str, int]
    chunk: Chunk | None = None
    arithmetic: dict[str, Any] | None = None
    duplicates: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.memory, self.score))

    def __repr__(self) -> str:
        found = " ".join(f"{leg} #{rank}" for leg, rank in self.sources.items())
        more = f", {len(self.duplicates)} more alike" if self.duplicates else ""
        return f"Hit({self.score:.3f}, {shortened(self.memory.text)!r}, {found or 'no leg'}{more})"


class Timeframe(Struct, frozen=True):
    """The time that was searched: from ``start`` up to, and without, ``stop``; None is open.
    ``phrase``: the words that ``timeframe="auto"`` took out of the query. It may be passed as
    ``timeframe`` again.
    """

    start: datetime | None
    stop: datetime | None
    phrase: str | None = None

    def __contains__(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.stop is None or at < self.stop)

    def __str__(self) -> str:
        return "..".join("" if at is None else at.isoformat() for at in (self.start, self.stop))


class Hits(tuple[Hit, ...]):
    """What a recall found, best first: a tuple of ``Hit``.

    timeframe: the time that was searched; None: all.
    complete: every search of the strategy was made, over everything this client wrote before and
        everything that was there when the store was opened, but for what cannot be embedded (see
        ``status``); ``reason`` says what is missing otherwise.
    pending: memories that wait for their vectors, in the whole store.
    """

    timeframe: Timeframe | None
    complete: bool
    pending: int
    reason: str | None

    def __new__(
        cls,
        hits: Iterable[Hit] = (),
        *,
        timeframe: Timeframe | None = None,
        complete: bool = True,
        pending: int = 0,
        reason: str | None = None,
    ) -> Hits:
        made = super().__new__(cls, hits)
        about = {"timeframe": timeframe, "complete": complete, "pending": pending, "reason": reason}
        made.__dict__.update(about)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"hits are frozen: {name} stays as it is")

    def __reduce__(self) -> Any:
        return _hits, (tuple(self), self.timeframe, self.complete, self.pending, self.reason)

    def __repr__(self) -> str:
        about = [f"{len(self)} {'hit' if len(self) == 1 else 'hits'}"]
        if self.timeframe is not None:
            about.append(f"timeframe {self.timeframe}")
        if not self.complete:
            about.append(f"not complete: {self.reason}")
        if self.pending:
            about.append(f"{self.pending} pending")
        lines = [f"<Hits: {', '.join(about)}>"]
        lines += [f"  {_line(hit)}" for hit in self[:_HITS_SHOWN_MAX]]
        if len(self) > _HITS_SHOWN_MAX:
            lines.append(f"  … {len(self) - _HITS_SHOWN_MAX} more")
        return "\n".join(lines)


def _hits(
    hits: tuple[Hit, ...],
    timeframe: Timeframe | None,
    complete: bool,
    pending: int,
    reason: str | None,
) -> Hits:
    return Hits(hits, timeframe=timeframe, complete=complete, pending=pending, reason=reason)


def _line(hit: Hit) -> str:
    memory = hit.memory
    at = memory.created_at if memory.occurred_at is None else memory.occurred_at
    words = f"{hit.score:.3f}  {at.astimezone(UTC):%Y-%m-%d}  {shortened(memory.text)}"
    return f"{words}  [{', '.join(memory.tags)}]" if memory.tags else words


class Relation(Struct, frozen=True):
    """From a memory, by its id, to another one or to turns. One of a kind between two ends."""

    source: str
    target: str | TurnRef
    kind: str
    weight: float


_COUNTS = (
    *("forgotten", "restored", "archived", "unarchived"),
    *("purged", "erased", "turns", "refused"),
)


class DeletionReport(Struct, frozen=True):
    """What was deleted, and undone, in [start, stop); None is open.

    forgotten, restored, archived, unarchived, purged, erased: memories, each counted as often as it
        happened to it. turns: whose bodies were erased. refused: deletions without confirmation.
    by: how many of all these each one did. entries: the audit behind it, oldest first.
    """

    start: datetime | None
    stop: datetime | None
    forgotten: int
    restored: int
    archived: int
    unarchived: int
    purged: int
    erased: int
    turns: int
    refused: int
    by: dict[str, int]
    entries: tuple[AuditEntry, ...]

    def __hash__(self) -> int:
        return hash((self.start, self.stop, self.entries))

    def __repr__(self) -> str:
        said = [f"{name}={getattr(self, name)}" for name in _COUNTS if getattr(self, name)]
        span = Timeframe(self.start, self.stop)
        return f"DeletionReport({', '.join([str(span), *(said or ['nothing'])])})"


def shortened(text: str) -> str:
    """One line of it."""
    line = " ".join(text[: 4 * _TEXT_SHOWN_MAX].split())
    if len(line) > _TEXT_SHOWN_MAX or len(text) > 4 * _TEXT_SHOWN_MAX:
        return line[: _TEXT_SHOWN_MAX - 1] + "…"
    return line
