"""What a purge or an erasure takes away: whose records, and which bytes. Changes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from neverforget.storage.control import ControlField, F, Range
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_fields import Id, M, MemoryField, id_in, id_text
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_reads import DERIVED_FROM, LongTermReads
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.longterm_revising import revised_body
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.longterm_state import ABOUT_ONE, CONTENT, LongTermState


@dataclass(slots=True)
class ErasurePlan:
    """``named``: those of ``ids`` that were asked for. ``records`` stand in front of the erasing
    ones, in the same batch.
    """

    ids: set[Id]
    named: list[Id] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)
    revised: list[str] = field(default_factory=list)
    records: list[Planned] = field(default_factory=list)


class ErasurePlanner:
    def __init__(self, state: LongTermState, reads: LongTermReads) -> None:
        self._state = state
        self._reads = reads

    def with_derived(self, rows: Iterable[int]) -> tuple[set[int], list[str]]:
        """Rows that go: these, their chunks and summaries, and what was derived only from what
        goes. And the ids of what was derived from it and from something else.
        """
        state, table, relations = self._state, self._state.table, self._state.relations
        doomed: set[int] = set()
        flagged: set[int] = set()
        waiting = set(rows)
        while waiting:
            row = waiting.pop()
            doomed.add(row)
            children = table.children(row)
            doomed.update(children[table.alive()[children]].tolist())
            for number in relations.of(row, outgoing=False):
                if relations.kinds.values[relations.column("kind")[number]] == DERIVED_FROM:
                    flagged.add(int(relations.column("source")[number]))
            # One more memory gone may leave another without anything else it came from.
            for source in flagged - doomed - waiting:
                if table.get(source, "status") != Status.GONE and self._sources(source) <= doomed:
                    waiting.add(source)
        left = [r for r in flagged - doomed if table.get(r, "status") != Status.GONE]
        return doomed, [id_text(each) for each in state.ids(sorted(left))]

    def _sources(self, row: int) -> set[int]:
        """What a memory was derived from: rows, and negative numbers that stand for turns."""
        relations = self._state.relations
        code = relations.kinds.known(DERIVED_FROM)
        numbers = relations.of(row, incoming=False)
        kinds = relations.column("kind")[numbers]
        targets = relations.column("target")[numbers]
        return set(targets[(kinds == code) | (targets < 0)].tolist())

    def add_ranges(self, plan: ErasurePlan) -> set[str]:
        """Every body about these memories. Answers their texts, of all versions."""
        texts: set[str] = set()
        state = self._state
        high = np.array([each.high for each in plan.ids], np.uint64)
        for heads, positions in heads_of(state.log, state.log_seed):
            about = np.isin(heads["session_id"], high) & np.isin(heads["kind"], ABOUT_ONE)
            for position in positions[about & (heads["body_length"] > 0)].tolist():
                header = state.log.header(position)
                if id_in(header) not in plan.ids or state.is_erased_at(position):
                    continue
                plan.ranges.append((position + HEADER_BYTES, header.body_length))
                if header.kind in CONTENT:
                    texts |= self._text_at(position)
        oldest = min((p for p, _ in plan.ranges), default=0)
        for start, stop in state.lost.ranges:
            if start > oldest:  # nobody can tell whose records were lost there
                plan.ranges.append((start, stop - start))
        return texts

    def _text_at(self, position: int) -> set[str]:
        try:
            text = self._state.bodies.read(position)[1].get(M[MemoryField.TEXT])
        except Corrupt:
            return set()
        return {text.strip()} if isinstance(text, str) and text.strip() else set()

    def add_contexts(self, plan: ErasurePlan, texts: set[str], by: str) -> None:
        """Memories that hold one of the texts as their context get a version without it, and lose
        the versions with it.
        """
        state, table = self._state, self._state.table
        for row in np.flatnonzero(table.column("has_context") & table.alive()).tolist():
            wanted = table.id(row)
            if wanted in plan.ids:
                continue
            try:
                _, body = state.bodies.read(table.get(row, "position"))
            except Corrupt:
                continue
            held = str(body.get(M[MemoryField.CONTEXT], ""))
            if not any(text in held for text in texts):
                continue
            content = content_of(body)
            del content[M[MemoryField.CONTEXT]]
            tags = table.tags.values[table.get(row, "tags")]
            content |= {M[MemoryField.TAGS]: list(tags), M[MemoryField.BY]: by}
            revised = revised_body(state, row, content)
            plan.records.append(Planned(Kind.REVISED, wanted, revised))
            plan.revised.append(id_text(wanted))
            for version in self._reads.versions(row):
                if not state.is_erased_at(version):
                    length = state.log.header(version).body_length
                    plan.ranges.append((version + HEADER_BYTES, length))

    def mentions(self, namespace: Namespace) -> list[Range]:
        """Audit entries whose filter names the namespace or one below it."""
        found = []
        for position in self._state.audit.after(None):
            try:
                header, body = self._state.control(position)
            except Corrupt:
                continue
            target = body.get(F[ControlField.TARGET])
            said = target.get("filter") if isinstance(target, dict) else None
            said = body.get(M[MemoryField.FILTER], said)
            place = said.get("namespace") if isinstance(said, dict) else None
            if isinstance(place, list) and within(tuple(place), namespace):
                found.append((position + HEADER_BYTES, header.body_length))
        return found
