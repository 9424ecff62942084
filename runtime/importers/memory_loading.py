"""Memories of a file into a store, so that a second run repeats nothing and brings nothing back.

Every memory has an id that does not depend on the run: the one in the line (our own export), else
one made of where it comes from, its namespace and its key, or what it says where it has none. A
memory that the store has under that id is compared. One that was forgotten or erased here stays so.
One that the file knows in a later version is revised, version by version; one that was changed here
is reported, never overwritten.

Memories are written in batches, durable when the batch returns. Relations come last, when both ends
are there: they are kept in memory until then.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from neverforget.actors.memory_ids import made_uuid7
from neverforget.runtime.importers.report import ImportReport
from neverforget.runtime.importers.source_turn import Problem, SourceMemory, SourceRelation
from neverforget.runtime.turn_json import json_value, parse_timestamp
from neverforget.runtime.values import CONFIRMED, TurnRef
from neverforget.storage.errors import Conflict, InvalidArgument, NotFound

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.store import Store

BATCH_MEMORIES_MAX = 256
BATCH_CHARACTERS_MAX = 4 * 1024 * 1024
UPDATED = "updated_at"  # in the metadata: when mem0 changed it last
DEFAULTS: dict[str, Any] = {"type": "fact", "importance": 1.0, "confidence": 1.0}
SAID = (
    *("text", "type", "importance", "confidence", "source", "agent", "speaker", "metadata"),
    *("occurred_at", "valid_from", "valid_to", "context"),
)


class MemoryLoader:
    """``store`` None: a dry run into a store that does not exist yet."""

    def __init__(
        self,
        store: Store | None,
        file: str,
        namespace: tuple[str, ...],
        dry_run: bool,
        problem: Callable[[Problem], None],
    ) -> None:
        self._store = store
        self._prefix = namespace
        self._dry_run = dry_run or store is None
        self._problem = problem
        self._file = file
        self._waiting: dict[str, SourceMemory] = {}
        self._characters = 0
        self._alike: Counter[bytes] = Counter()
        self._relations: list[tuple[str, int, SourceRelation]] = []
        self.memories = self.remembered = self.revised = self.existing = self.refused = 0

    def add(self, memory: SourceMemory) -> None:
        self.memories += 1
        if memory.status == "forgotten":
            self._refuse(memory, "this memory was forgotten; it is not brought back")
            return
        memory_id = self._id(memory)
        if memory_id in self._waiting:
            self.write()
        self._waiting[memory_id] = memory
        self._characters += len(memory.fields["text"])
        self._relations += [(memory_id, memory.line, each) for each in memory.relations]
        full = self._characters >= BATCH_CHARACTERS_MAX
        if full or len(self._waiting) >= BATCH_MEMORIES_MAX:
            self.write()

    def finish(self) -> None:
        self.write()
        if self._dry_run or self._store is None:
            return
        there: dict[str, set[Any]] = {}
        for source, line, relation in self._relations:
            target = self._target(relation)
            try:
                if source not in there:
                    found = self._store.relations(source, direction="out")
                    there = {source: {(each.target, each.kind, each.weight) for each in found}}
                if (target, relation.kind, relation.weight) not in there[source]:
                    self._store._relate_as_was(
                        source, target, relation.kind, weight=relation.weight
                    )
            except (NotFound, Conflict, InvalidArgument) as error:
                told = f"the relation {relation.kind} of memory {source}: {error}"
                self._problem(Problem(self._file, line, told))

    def counted(self, report: ImportReport) -> ImportReport:
        """``report`` with the counts of memories."""
        return msgspec.structs.replace(
            report,
            memories=self.memories,
            remembered=self.remembered,
            revised=self.revised,
            memories_existing=self.existing,
            memories_refused=self.refused,
        )

    # ---- identity --------------------------------------------------------------------------------

    def _id(self, memory: SourceMemory) -> str:
        if memory.id is not None:
            return self._placed(memory.id)
        place = [*self._prefix, *memory.namespace]
        key = memory.fields.get("key")
        if key is not None:
            what = _digest([memory.origin, place, key])
        else:
            what = _digest([place, {n: _plain(v) for n, v in sorted(memory.fields.items())}])
            self._alike[what] += 1  # the same line twice is two memories
            what = _digest([what.hex(), self._alike[what]])
        return made_id(memory.fields.get("occurred_at"), what)

    def _placed(self, memory_id: str) -> str:
        """Below a namespace of this import's own a memory is another one than where it was."""
        if not self._prefix:
            return memory_id
        packed = bytes.fromhex(memory_id.replace("-", ""))
        milliseconds = int.from_bytes(packed[:6], "big")
        return made_uuid7(milliseconds, _digest([list(self._prefix), memory_id]))

    def _target(self, relation: SourceRelation) -> str | TurnRef:
        if isinstance(relation.target, str):
            return self._placed(relation.target)
        namespace, session, first, last = relation.target
        assert self._store is not None
        place = self._store.session(session, namespace=self._prefix + namespace).namespace
        return TurnRef(place, session, first, last)

    # ---- writing ---------------------------------------------------------------------------------

    def write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._characters = 0
        if not waiting:
            return
        found = self._known(list(waiting))
        new = {name: each for name, each in waiting.items() if name not in found}
        for name, memory in found.items():
            self._compare(memory, waiting[name])
        if self._dry_run:
            self.remembered += len(new)
            for source in new.values():
                source.outcome("there")
        elif new:
            self._remember(new)

    def _known(self, ids: list[str]) -> dict[str, Memory]:
        if self._store is None:
            return {}
        found = self._store._known_memories(ids)
        return {each.id: each for each in found if each is not None}

    def _remember(self, new: dict[str, SourceMemory]) -> None:
        store = self._store
        assert store is not None
        items = [self._first(each) for each in new.values()]
        try:
            written = store._remember_under(list(new), items)
        except (Conflict, InvalidArgument) as error:
            if len(new) > 1:  # one of them is at fault: find it, keep the others
                for name, each in new.items():
                    self._remember({name: each})
                return
            ((_, source),) = new.items()
            if isinstance(error, Conflict) and not self._key_is_held(source):
                self.existing += 1  # the id was used up here: it was purged or erased
                source.outcome("gone")
            else:
                self._refuse(source, str(error))
            return
        for (name, source), memory in zip(new.items(), written, strict=True):
            source.outcome("there")
            if memory.id != name:  # found by its key
                self.existing += 1
                continue
            self.remembered += 1
            self._go_on(memory, source)

    def _key_is_held(self, source: SourceMemory) -> bool:
        assert self._store is not None
        key = source.fields.get("key")
        place = self._prefix + source.namespace
        return (
            key is not None and self._store.get(key=key, namespace=place, default=None) is not None
        )

    def _first(self, source: SourceMemory) -> dict[str, Any]:
        """The arguments that its first version is remembered with."""
        fields = dict(source.versions[0] if source.versions else source.fields)
        if key := source.fields.get("key"):
            fields["key"] = key
        return {**fields, "namespace": self._prefix + source.namespace}

    def _go_on(self, memory: Memory, source: SourceMemory) -> None:
        """From the version that the store has to the last one in the file."""
        assert self._store is not None
        for fields in [*source.versions, source.fields][memory.version :]:
            changes: dict[str, Any] = {name: fields.get(name, DEFAULTS.get(name)) for name in SAID}
            changes["tags"] = tuple(fields.get("tags", ()))
            changes["metadata"] = fields.get("metadata", {})
            memory = self._store.revise(memory.id, expect_version=memory.version, **changes)
        if source.status == "archived" and memory.status == "active":
            self._store.archive(memory.id, confirm=CONFIRMED, reason="archived in the import")

    # ---- what is there already -------------------------------------------------------------------

    def _compare(self, memory: Memory, source: SourceMemory) -> None:
        if memory.status == "forgotten":
            self.existing += 1
            source.outcome("gone")
            return
        known = [*source.versions, source.fields]
        if memory.version < len(known) and self._same(memory, known[memory.version - 1]):
            self._revise(memory, source)
        elif self._same(memory, source.fields) or self._had(memory, source.fields):
            self._is_there(source)
            if source.status == "archived" and memory.status == "active" and not self._dry_run:
                self._go_on(memory, source)
        elif source.origin and _updated(source.fields) > _updated({"metadata": memory.metadata}):
            source.versions = [{}] * memory.version
            self._revise(memory, source)
        elif (changes := source.puts_right(memory)) is not None:
            self._put_right(memory, source, changes)
        else:
            self._refuse(source, f"memory {memory.id} says something else here; it stays as it is")

    def _is_there(self, source: SourceMemory) -> None:
        self.existing += 1
        source.outcome("there")

    def _revise(self, memory: Memory, source: SourceMemory) -> None:
        self.revised += 1
        source.outcome("there")
        if not self._dry_run:
            self._go_on(memory, source)

    def _put_right(self, memory: Memory, source: SourceMemory, changes: dict[str, Any]) -> None:
        if not changes:
            self._is_there(source)
            return
        assert self._store is not None
        try:
            if not self._dry_run:
                self._store.revise(memory.id, expect_version=memory.version, **changes)
        except (Conflict, InvalidArgument) as error:
            self._refuse(source, str(error))
            return
        self.revised += 1
        source.outcome("there")

    def _had(self, memory: Memory, fields: dict[str, Any]) -> bool:
        """An earlier version said this."""
        assert self._store is not None
        if memory.version == 1:
            return False
        return any(self._same(each, fields) for each in self._store.history(memory.id))

    def _same(self, memory: Memory, fields: dict[str, Any]) -> bool:
        assert self._store is not None
        given = {**DEFAULTS, "agent": self._store._scope.agent, "metadata": {}, **fields}
        for name in SAID:
            here = getattr(memory, name)
            if name == "occurred_at" and here is None:
                here = memory.created_at if given.get(name) is not None else None
            if json_value(_plain(here)) != json_value(_plain(given.get(name))):
                return False
        return set(memory.tags) == set(given.get("tags", ()))

    def _refuse(self, memory: SourceMemory, message: str) -> None:
        self.refused += 1
        memory.outcome("refused")
        self._problem(Problem(self._file, memory.line, message))


def _updated(fields: dict[str, Any]) -> datetime:
    value = fields.get("metadata", {}).get(UPDATED)
    try:
        return parse_timestamp(value)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, tuple):
        return list(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _digest(what: Any) -> bytes:
    text = json.dumps(json_value(what), sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def made_id(at: datetime | None, digest: bytes) -> str:
    """A UUIDv7 of a time and a digest: the same for the same memory at every run."""
    return made_uuid7(0 if at is None else int(at.timestamp() * 1000), digest)
