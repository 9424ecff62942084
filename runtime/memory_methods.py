"""``Store``: remembering, and what is said of memories later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from neverforget.runtime import memory_operations as writing
from neverforget.runtime import memory_reading as reading
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.memory_values import Memory, Relation
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.session_core import NOTHING
from neverforget.runtime.store_running import StoreRunning
from neverforget.runtime.times import Moment
from neverforget.runtime.values import TurnRef


class MemoryMethods(StoreRunning):
    """A part of ``Store``."""

    def remember(
        self,
        text: str,
        *,
        key: str | None = None,
        on_conflict: writing.OnConflict = "raise",
        type: str = "fact",
        tags: str | Iterable[str] = (),
        importance: float = 1.0,
        confidence: float = 1.0,
        source: str | None = None,
        agent: str | None = None,
        speaker: str | None = None,
        namespace: NamespaceLike = (),
        metadata: Mapping[str, Any] = NOTHING,
        related_to: writing.RelatedTo = (),
        occurred_at: Moment | None = None,
        context: str | None = None,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        sync: SyncLevel | None = None,
    ) -> Memory:
        """Remember a text and return it as a Memory, with an id.

        text: what is remembered, of any length, kept as it is. type: any word but those that end
        in -chunk or -summary. tags: like "ai:llm:embeddings": lower-case letters, digits and
        hyphens, at most 4 levels; a search for "ai" finds them. importance: 0 to 10. confidence:
        0 to 1. source: where it is from; speaker: whose words it holds; agent: who remembers it,
        the view's agent unless given. metadata: JSON-like. context: neighbouring text by which it
        is found, too. related_to: one or several of a memory's id, a TurnRef (it was derived from
        those turns), (target, kind) or (target, kind, weight). occurred_at: when that happened of
        which it tells; valid_from, valid_to: when it is true, valid_to not included. Times: an
        aware datetime, ISO 8601 text with an offset, or whole milliseconds since 1970.

        key: unique in the namespace until its memory is forgotten. Repeated with equal content
        and tags it returns the memory that holds it; with other content it is a Conflict, or with
        ``on_conflict="revise"`` a new version of that memory.

        When it returns with ``sync="disk"`` (the default unless the handle says otherwise) the
        memory survives a crash of any process and a power loss; with ``sync="process"`` a crash
        of any process. It is made searchable in the background: ``recall`` waits for that.

        Raises InvalidArgument (nothing was sent), Conflict, NotFound (a related memory),
        OutOfSpace, Overloaded, Poisoned, Unavailable (``.outcome`` "unknown": repeat it with the
        same key).
        """
        item = {
            "text": text,
            "key": key,
            "on_conflict": on_conflict,
            "type": type,
            "tags": tags,
            "importance": importance,
            "confidence": confidence,
            "source": source,
            "agent": agent,
            "speaker": speaker,
            "namespace": namespace,
            "metadata": metadata,
            "related_to": related_to,
            "occurred_at": occurred_at,
            "context": context,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "sync": sync,
        }
        return self._run(writing.remember(self._context, self._scope, item))

    def remember_many(self, items: Iterable[Mapping[str, Any]]) -> list[Memory]:
        """Remember several memories as one batch, and return them in their order.

        items: mappings with ``remember``'s arguments as keys; ``on_conflict`` and ``sync`` must be
        the same in all. All of them are stored or, on an error, none, with one acknowledgement.
        Above the store's ``batch_bytes_max`` (64 MiB) in all: InvalidArgument. Survives a crash of
        any process and a power loss as for ``remember``, the whole batch or nothing of it; the
        same errors, which name the item.
        """
        return self._run(writing.remember_many(self._context, self._scope, items))

    # ---- later versions --------------------------------------------------------------------------

    def revise(
        self,
        id: str,
        *,
        text: str | UnsetType = UNSET,
        type: str | UnsetType = UNSET,
        importance: float | UnsetType = UNSET,
        confidence: float | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        valid_to: Moment | UnsetType | None = UNSET,
        valid_from: Moment | UnsetType | None = UNSET,
        occurred_at: Moment | UnsetType | None = UNSET,
        tags: str | Iterable[str] | UnsetType = UNSET,
        source: str | UnsetType | None = UNSET,
        agent: str | UnsetType | None = UNSET,
        speaker: str | UnsetType | None = UNSET,
        context: str | UnsetType | None = UNSET,
        expect_version: int | None = None,
    ) -> Memory:
        """Write a new version of a memory and return it. What is not named stays as it is; None
        takes a field away. Only the new version is found by searches; ``history`` has them all.

        expect_version: the version it must be at, else Conflict (``.seq`` says which it is at).
        What changes nothing writes nothing. Durable as ``remember`` (the handle's ``sync``): it
        survives a crash, on "disk" a power loss. Raises NotFound, Conflict, InvalidArgument.
        """
        changes = {
            "text": text,
            "type": type,
            "tags": tags,
            "importance": importance,
            "confidence": confidence,
            "source": source,
            "agent": agent,
            "speaker": speaker,
            "metadata": metadata,
            "occurred_at": occurred_at,
            "context": context,
            "valid_from": valid_from,
            "valid_to": valid_to,
        }
        return self._run(writing.revise(self._context, self._scope, id, changes, expect_version))

    def history(self, id: str) -> list[Memory]:
        """Every version of a memory, oldest first, with the tags that each had. A version that is
        damaged on disk is there with ``status`` unreadable. Raises NotFound.
        """
        return self._run(reading.history(self._scope, id))

    def revert(self, id: str, version: int) -> Memory:
        """Write a new version that says what ``version`` said; nothing of the history is lost.
        Survives a crash of any process and a power loss. Raises NotFound, also for the version.
        """
        return self._run(writing.revert(self._context, self._scope, id, version))

    # ---- tags and relations ----------------------------------------------------------------------

    def tag(self, id: str, *tags: str) -> None:
        """Give a memory tags, besides those it has; no new version. Survives a crash of any process
        and a power loss. Raises NotFound, InvalidArgument.
        """
        self._run(writing.tag(self._context, self._scope, id, tags, True))

    def untag(self, id: str, *tags: str) -> None:
        """Take exactly these tags away, not those below them. Durable as ``tag``: it survives a
        crash and a power loss.
        """
        self._run(writing.tag(self._context, self._scope, id, tags, False))

    def relate(self, source: str, target: str | TurnRef, kind: str, *, weight: float = 1.0) -> None:
        """Relate a memory to another one, or to turns. There is one relation of a kind between two
        ends; another weight replaces the first. "derived-from" says that it was made from the
        other: it goes when that is erased, unless it was made from something else, too.

        Survives a crash of any process and a power loss. NotFound where an end is not there: a
        memory, or the last of the turns. InvalidArgument where one is a chunk or summary (relate
        its original), and for the kinds that those have.
        """
        self._run(writing.relate(self._context, self._scope, source, target, kind, weight))

    def unrelate(self, source: str, target: str | TurnRef, kind: str) -> None:
        """Take a relation away. NotFound where there is none. Survives a crash of any process and
        a power loss.
        """
        self._run(writing.relate(self._context, self._scope, source, target, kind, None))

    def relations(
        self, id: str, *, kind: str | None = None, direction: reading.Direction = "both"
    ) -> list[Relation]:
        """All relations of a memory in the order they were made. direction: "out" begin at it, "in"
        end at it. Those whose other end is forgotten, or outside this view, are
        not shown. Raises NotFound.
        """
        return self._run(reading.relations(self._scope, id, kind, direction))

    def provenance(self, id: str) -> list[TurnRef]:
        """The turns that a memory came from: those it is related to. Raises NotFound."""
        return self._run(reading.provenance(self._scope, id))

    # ---- for imports -----------------------------------------------------------------------------

    def _remember_under(
        self, ids: Sequence[str], items: Iterable[Mapping[str, Any]]
    ) -> list[Memory]:
        """As ``remember_many``, under the ids that the memories had elsewhere. Conflict where one
        is taken, or was before it was purged or erased.
        """
        return self._run(writing.remember_many(self._context, self._scope, items, ids))

    def _relate_as_was(
        self, source: str, target: str | TurnRef, kind: str, *, weight: float
    ) -> None:
        """As ``relate``; the turns may be elsewhere."""
        relate = writing.relate(
            self._context, self._scope, source, target, kind, weight, there=False
        )
        self._run(relate)

    def _known_memories(self, ids: Sequence[str]) -> list[Memory | None]:
        """As ``get_many``, forgotten ones too."""
        return self._run(reading.get_many(self._scope, ids, include_forgotten=True))
