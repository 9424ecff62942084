"""What a purge or an erasure takes away: whose records, and which bytes. Changes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neverforget.storage.control import Body, ControlField, F, Range
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_auditing import LongTermAuditor
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_fields import (
    Id,
    M,
    MemoryField,
    any_id,
    id_in,
    id_text,
    named_in,
)
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_reads import DERIVED_FROM, LongTermReads
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.longterm_revising import revised_body
from neverforget.storage.longterm_said import Said
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.longterm_state import ABOUT_ONE, CONTENT, LongTermState
from neverforget.storage.quotes import Quotes
from neverforget.storage.record import Header


@dataclass(slots=True)
class ErasurePlan:
    """``named``: those of ``ids`` that were asked for. Of the batch, ``entry`` and ``records``
    stand in front of the erasing ones, ``behind`` follows the first of these.
    """

    ids: set[Id]
    named: list[Id] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)
    revised: list[str] = field(default_factory=list)
    entry: list[Planned] = field(default_factory=list)
    records: list[Planned] = field(default_factory=list)
    behind: list[Planned] = field(default_factory=list)


class ErasurePlanner:
    def __init__(
        self, state: LongTermState, reads: LongTermReads, auditor: LongTermAuditor
    ) -> None:
        self._state = state
        self._reads = reads
        self._auditor = auditor

    # ---- who goes --------------------------------------------------------------------------------

    def with_derived(self, rows: Iterable[int]) -> tuple[set[int], list[str]]:
        """Rows that go: these, their chunks and summaries, and what was derived only from what
        goes. And the ids of what was derived from it and from something else.
        """
        state, table = self._state, self._state.table
        derived = self._derived_from()
        doomed: set[int] = set()
        flagged: set[int] = set()
        waiting = set(rows)
        while waiting:
            doomed |= waiting
            doomed |= self._children(waiting)
            near = {source for row in waiting for source in derived.get(row, ())} - doomed
            flagged |= near
            # Only whom the last step has robbed of a source may be left without any.
            waiting = {
                source
                for source in near
                if table.get(source, "status") != Status.GONE and self._sources(source) <= doomed
            }
        left = [r for r in flagged - doomed if table.get(r, "status") != Status.GONE]
        return doomed, [id_text(each) for each in state.ids(sorted(left))]

    def _derived_from(self) -> dict[int, list[int]]:
        """By row of the source: rows of what was derived from it."""
        relations = self._state.relations
        code = relations.kinds.known(DERIVED_FROM)
        found: dict[int, list[int]] = {}
        if code is None:
            return found
        wanted = relations.column("alive") & (relations.column("kind") == code)
        wanted &= relations.column("target") >= 0
        targets = relations.column("target")[wanted].tolist()
        for target, source in zip(targets, relations.column("source")[wanted].tolist()):
            found.setdefault(target, []).append(source)
        return found

    def _children(self, rows: set[int]) -> set[int]:
        """Chunks and summaries of many."""
        table = self._state.table
        wanted = np.fromiter(rows, np.int64, len(rows))
        found = table.alive() & np.isin(table.column("original"), wanted)
        return set(np.flatnonzero(found).tolist())

    def _sources(self, row: int) -> set[int]:
        """What a memory was derived from: rows, and negative numbers that stand for turns."""
        relations = self._state.relations
        code = relations.kinds.known(DERIVED_FROM)
        numbers = relations.of(row, incoming=False)
        kinds = relations.column("kind")[numbers]
        targets = relations.column("target")[numbers]
        return set(targets[(kinds == code) | (targets < 0)].tolist())

    # ---- their records ---------------------------------------------------------------------------

    def add_ranges(self, plan: ErasurePlan) -> Said:
        """Every body about these memories. Answers what all of their versions say."""
        said, state = Said(), self._state
        high = np.array([each.high for each in plan.ids], np.uint64)
        for heads, positions in heads_of(state.log, state.log_seed):
            about = np.isin(heads["session_id"], high) & np.isin(heads["kind"], ABOUT_ONE)
            for position in positions[about & (heads["body_length"] > 0)].tolist():
                header = state.log.header(position)
                if id_in(header) not in plan.ids or state.is_erased_at(position):
                    continue
                plan.ranges.append((position + HEADER_BYTES, header.body_length))
                if header.kind in CONTENT:
                    said.add(self._body_at(position))
                elif header.kind in (Kind.TAGGED, Kind.UNTAGGED):
                    said.add_tags(self._control_at(position))
        oldest = min((p for p, _ in plan.ranges), default=0)
        for start, stop in state.lost.ranges:
            if start > oldest:  # nobody can tell whose records were lost there
                plan.ranges.append((start, stop - start))
        return said

    def _body_at(self, position: int) -> Body:
        try:
            return self._state.bodies.read(position)[1]
        except Corrupt:
            return {}

    def _control_at(self, position: int) -> Body:
        try:
            return self._state.control(position)[1]
        except Corrupt:
            return {}

    # ---- copies in other memories ----------------------------------------------------------------

    def add_contexts(self, plan: ErasurePlan, texts: Iterable[str], by: str) -> None:
        """Memories that hold one of the texts in their context get a version without it, and lose
        the versions before.
        """
        quotes = Quotes(texts)
        state, table = self._state, self._state.table
        if not len(quotes):
            return
        for row in np.flatnonzero(table.column("has_context") & table.alive()).tolist():
            wanted = table.id(row)
            if wanted in plan.ids:
                continue
            versions = self._reads.versions(row)
            bodies = [self._body_at(p) for p in versions if not state.is_erased_at(p)]
            if not any(quotes.stand_in(_context(body)) for body in bodies):
                continue
            content = content_of(bodies[-1])
            left = quotes.cut_from(_context(bodies[-1])).strip()
            content.pop(M[MemoryField.CONTEXT], None)
            if left:
                content[M[MemoryField.CONTEXT]] = left
            tags = table.tags.values[table.get(row, "tags")]
            content |= {M[MemoryField.TAGS]: list(tags), M[MemoryField.BY]: by}
            revised = revised_body(state, row, content)
            plan.records.append(Planned(Kind.REVISED, wanted, revised))
            plan.revised.append(id_text(wanted))
            for version in versions:
                if not state.is_erased_at(version):
                    length = state.log.header(version).body_length
                    plan.ranges.append((version + HEADER_BYTES, length))

    # ---- what the audit was told -----------------------------------------------------------------

    def add_audit(self, plan: ErasurePlan, said: Said, namespace: Namespace | None) -> None:
        """Reasons, filters and targets of audit entries that quote what goes, or name the
        ``namespace``. The entries stay: who, when, how many, which ids.
        """
        state = self._state
        said.all_is_said(self._words_left(plan))
        for position in state.audit.after(None):
            header = state.log.header(position)
            at = (
                position
                if header.kind == Kind.REFUSED
                else self._auditor.asked_at(position, header)
            )
            if at is None or state.is_erased_at(at):
                continue
            body = self._control_at(at)
            target = body.get(F[ControlField.TARGET])
            filter_said = target.get("filter") if isinstance(target, dict) else None
            filter_said = body.get(M[MemoryField.FILTER], filter_said)
            if _names(filter_said, namespace) or said.is_filtered_by(filter_said):
                plan.ranges.append(self._range_of(at))
                continue
            reason = body.get(F[ControlField.REASON])
            about = self._is_about(plan, position, header, target)
            if isinstance(reason, str) and said.is_quoted_in(reason, all_of_it=about):
                plan.ranges.append(self._range_of(at))

    def _range_of(self, position: int) -> Range:
        return position + HEADER_BYTES, self._state.log.header(position).body_length

    def _is_about(self, plan: ErasurePlan, position: int, header: Header, target: Any) -> bool:
        """Whether an entry names one of those that go."""
        if header.kind == Kind.REFUSED:
            held = target if isinstance(target, dict) else {}
            named = [any_id(each) for each in (held.get("id"), *(held.get("ids") or ()))]
        else:
            try:
                named = [*named_in(self._control_at(position))]
            except Corrupt:
                return False
        return not plan.ids.isdisjoint(each for each in named if each is not None)

    def _words_left(self, plan: ErasurePlan) -> set[str]:
        """Tags, agents, types and names of namespaces that memories have which stay."""
        table = self._state.table
        going = table.find_many(list(plan.ids))
        stays = table.alive()
        stays[going] = False
        words: set[str] = set()

        def values(column: str, held: Any) -> list[Any]:
            return [held.values[code] for code in np.unique(table.column(column)[stays]).tolist()]

        words.update(tag for tags in values("tags", table.tags) for tag in tags)
        words.update(name for names in values("namespace", table.namespaces) for name in names)
        words.update(agent for agent in values("agent", table.agents) if agent is not None)
        words.update(values("type", table.types))
        return words


def _context(body: Body) -> str:
    held = body.get(M[MemoryField.CONTEXT], "")
    return held if isinstance(held, str) else ""


def _names(filter_said: Any, namespace: Namespace | None) -> bool:
    """Whether a filter names the namespace, or one below it."""
    place = filter_said.get("namespace") if isinstance(filter_said, dict) else None
    return namespace is not None and isinstance(place, list) and within(tuple(place), namespace)
