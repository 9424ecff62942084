"""What a purge or an erasure takes away: whose records, and which bytes. Changes nothing itself.

It is found out in slices, while others go on writing. A plan knows how far of the log, and which
versions, it has looked at; to catch up is to look at the rest, however often, until little is left:
the last bit is done without a slice, and what the plan says then holds for that moment. Who turns
out to stay after all (a forgetting was undone, another source was named) makes it begin anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from neverforget.storage.control import Body, ControlField, F, Range
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.longterm_auditing import LongTermAuditor
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_derived import Going
from neverforget.storage.longterm_fields import M, MemoryField, any_id, id_of, id_text, packed_in
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.longterm_revising import revised_body
from neverforget.storage.longterm_said import Said, words_of
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.longterm_state import ABOUT_ONE, CONTENT, LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.quotes import Quotes
from neverforget.storage.recall_erasing import RecallErasure
from neverforget.storage.record import Header
from neverforget.storage.slices import Slices, in_one_go
from neverforget.storage.working_erasure import WorkingErasure

_SLICE: Final = 128  # records read between two yields: 3 ms
_CONTEXTS: Final = 16  # memories whose contexts are searched between two: 3 ms
_WINDOW_BYTES: Final = 64 * 1024  # of the log, whose headers are looked at between two
_LAG_BYTES: Final = 64 * 1024  # of the log, that may be looked at in the last bit
_ROUNDS_MAX: Final = 10  # each looks at what was written during the one before


class _Revision(NamedTuple):
    """Of a memory that holds a text in its context: what is left of it, and what goes."""

    content: Body
    ranges: list[Range]


@dataclass(slots=True)
class ErasurePlan:
    """``who`` answers who goes now. ``everywhere``: an erasure, which reaches what the audit says
    of them, or of ``namespace``, too. ``bare``: rows of who stays and loses its context.
    ``doomed``: who goes, by row. ``upto``: of the log.
    """

    who: Callable[[], Going]
    by: str
    everywhere: bool
    namespace: Namespace | None = None
    bare: tuple[int, ...] = ()
    doomed: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    flagged: list[str] = field(default_factory=list)
    upto: int = 0
    said: Said = field(default_factory=Said)
    bodies: list[Array] = field(default_factory=list)  # (position, length) of each
    judged: Array = field(default_factory=lambda: np.zeros(0, np.uint64))  # by row: position
    revisions: dict[int, _Revision] = field(default_factory=dict)
    audited: int | None = None
    said_of_audit: int = -1  # how much was said when the audit was looked at
    audit: list[Range] = field(default_factory=list)
    working: WorkingErasure = field(default_factory=WorkingErasure)
    recalls: RecallErasure = field(default_factory=RecallErasure)

    def anew(self) -> None:
        fresh = ErasurePlan(self.who, self.by, self.everywhere, self.namespace, self.bare)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    @property
    def rows(self) -> Array:
        """Who goes, ascending."""
        return np.flatnonzero(self.doomed)

    def covers(self, count: int) -> None:
        """The table has so many rows by now."""
        self.doomed, self.judged = _by_row(self.doomed, count), _by_row(self.judged, count)


class ErasurePlanner:
    def __init__(
        self, state: LongTermState, reads: LongTermReads, auditor: LongTermAuditor
    ) -> None:
        self._state = state
        self._reads = reads
        self._auditor = auditor

    def make(self, plan: ErasurePlan) -> Slices[None]:
        """When it returns, and until the next ``yield`` of the caller, the plan says what is."""
        for _ in range(_ROUNDS_MAX):
            yield from self._catch_up(plan)
            if self._state.log.written - plan.upto <= _LAG_BYTES:
                break
        # What is named must be durable, and known to be, before it is zeroed.
        self._state.log.write()
        self._state.log.sync()
        in_one_go(self._catch_up(plan))

    def ranges(self, plan: ErasurePlan) -> Array:
        """(position, length) of every body about those that go, of what may be theirs, and of what
        repeats it.
        """
        found = [*plan.bodies, *plan.working.bodies, np.zeros((0, 2), np.int64)]
        oldest = min((part[0, 0] for part in found if len(part)), default=0)
        lost = self._state.lost.ranges  # nobody can tell whose records were lost there
        others = [(start, stop - start) for start, stop in lost if start > oldest]
        for _, revision in sorted(plan.revisions.items()):
            others += revision.ranges
        others += plan.audit + plan.recalls.ranges
        return np.concatenate([*found, np.array(others, np.int64).reshape(-1, 2)])

    def _catch_up(self, plan: ErasurePlan) -> Slices[None]:
        going = plan.who()
        before = _by_row(plan.doomed, self._state.table.count)
        doomed = np.zeros_like(before)
        doomed[going.rows] = True
        if (before & ~doomed).any():
            plan.anew()
            before[:] = False
        plan.doomed = doomed
        plan.flagged = [id_text(each) for each in self._state.ids(going.flagged)]
        stop = self._state.log.written
        yield from self._records(plan, doomed & ~before, 0, stop)
        yield from self._records(plan, before, plan.upto, stop)
        windows = self._windows(plan.upto, stop)
        yield from plan.working.look(self._state, plan.namespace, windows)
        plan.upto = stop
        yield from self._contexts(plan)
        if plan.everywhere:
            yield from self._audit(plan)
            yield from plan.recalls.look(self._state, plan.namespace)

    # ---- their records ---------------------------------------------------------------------------

    def _records(self, plan: ErasurePlan, wanted: Array, since: int, stop: int) -> Slices[None]:
        """Every body about the ``wanted`` rows, and what their versions say."""
        state, table = self._state, self._state.table
        if not wanted.any():
            return
        for start, end in self._windows(since, stop):
            for heads, positions in heads_from(state, start, end):
                about = np.flatnonzero(
                    np.isin(heads["kind"], ABOUT_ONE) & (heads["body_length"] > 0)
                )
                names = ("session_id", "sequence_id", "token_count")
                places, rows = table.rows_of(*(heads[name][about] for name in names))
                mine = about[places[wanted[rows]]]
                mine = mine[~state.are_erased_at(positions[mine])]
                starts = positions[mine].astype(np.int64)
                lengths = heads["body_length"][mine].astype(np.int64)
                plan.bodies.append(np.stack((starts + HEADER_BYTES, lengths), axis=1))
                kinds = heads["kind"][mine].tolist()
                for number, (position, kind) in enumerate(zip(starts.tolist(), kinds)):
                    self._hear(plan, position, kind)
                    if number % _SLICE == _SLICE - 1:
                        yield
            yield

    def _windows(self, since: int, stop: int) -> Iterator[tuple[int, int]]:
        """Parts of the log between the first records of memories."""
        while since < stop:
            born = self._state.table.column("born")
            at = int(born.searchsorted(np.uint64(since + _WINDOW_BYTES)))
            end = min(int(born[at]), stop) if at < len(born) else stop
            yield since, end
            since = end

    def _hear(self, plan: ErasurePlan, position: int, kind: int) -> None:
        if kind in CONTENT:
            body = self._body_at(position)
            stays = self._original_stays(plan, body)
            plan.said.add(body, everything=plan.everywhere, original_stays=stays)
        elif plan.everywhere and kind in (Kind.TAGGED, Kind.UNTAGGED):
            plan.said.add_tags(self._control_at(position))

    def _original_stays(self, plan: ErasurePlan, body: Body) -> bool:
        """A purge takes the chunks of former versions, whose text may be said still."""
        named = body.get(M[MemoryField.ORIGINAL])
        row = None if named is None else self._state.table.find(id_of(named))
        return row is not None and not plan.doomed[row]

    def _body_at(self, position: int) -> Body:
        try:
            return self._state.body_at(position)
        except Corrupt:
            return {}

    def _control_at(self, position: int) -> Body:
        try:
            return self._state.control(position)[1]
        except Corrupt:
            return {}

    # ---- copies in other memories ----------------------------------------------------------------

    def _contexts(self, plan: ErasurePlan) -> Slices[None]:
        """Memories that hold one of the texts in their context get a version without it, and lose
        the versions before.
        """
        table = self._state.table
        plan.covers(table.count)
        for row in [row for row in plan.revisions if plan.doomed[row]]:
            del plan.revisions[row]
        rows = np.flatnonzero(table.column("has_context") & table.alive() & ~plan.doomed)
        looked_at = plan.judged[rows] == table.column("position")[rows]
        fresh = Quotes(plan.said.take_fresh() if looked_at.any() else ())
        plan.said.take_fresh()
        yield from self._judge(plan, rows[~looked_at], plan.said.texts)
        yield from self._judge(plan, rows[looked_at], fresh)
        for row in (row for row in plan.bare if not plan.doomed[row]):
            self._make_bare(plan, row)

    def _make_bare(self, plan: ErasurePlan, row: int) -> None:
        """As of now: it may have another version since the last time."""
        versions = list(self._reads.chain(row))
        body = self._body_at(self._state.table.get(row, "position"))
        if body and any(record and _context(record[1]) for _, record in versions):
            content = content_of(body) | {M[MemoryField.BY]: plan.by}
            content.pop(M[MemoryField.CONTEXT], None)
            ranges = [self._range_of(version) for version, _ in versions]
            plan.revisions[row] = _Revision(content, ranges)

    def _judge(self, plan: ErasurePlan, rows: Array, quotes: Quotes) -> Slices[None]:
        """``quotes``: which of the texts to look for, to find out whether there is any."""
        everything = quotes is plan.said.texts
        if not len(quotes):
            return
        for number, row in enumerate(rows.tolist()):
            position = self._state.table.get(row, "position")
            if not everything and plan.judged[row] != position:
                continue  # another version by now: to be looked at in the next round
            versions = list(self._reads.chain(row))
            contexts = [_context(record[1]) for _, record in versions if record is not None]
            if any(quotes.stand_in(context) for context in contexts):
                plan.revisions[row] = self._revision(plan, row, [at for at, _ in versions])
            elif everything:
                plan.revisions.pop(row, None)
            plan.judged[row] = position
            if number % _CONTEXTS == _CONTEXTS - 1:
                yield

    def _revision(self, plan: ErasurePlan, row: int, versions: list[int]) -> _Revision:
        body = self._body_at(self._state.table.get(row, "position"))
        content = content_of(body)
        left = plan.said.texts.cut_from(_context(body)).strip()
        content.pop(M[MemoryField.CONTEXT], None)
        if left:
            content[M[MemoryField.CONTEXT]] = left
        content[M[MemoryField.BY]] = plan.by
        return _Revision(content, [self._range_of(version) for version in versions])

    def revisions(self, plan: ErasurePlan) -> list[Planned]:
        """Versions of others without a text in their context, as of now."""
        state, table = self._state, self._state.table
        planned = []
        for row, revision in sorted(plan.revisions.items()):
            tags = table.tags.values[table.get(row, "tags")]
            content = revision.content | {M[MemoryField.TAGS]: list(tags)}
            body = revised_body(state, row, content)
            planned.append(Planned(Kind.REVISED, table.id(row), body))
        return planned

    # ---- what the audit was told -----------------------------------------------------------------

    def _audit(self, plan: ErasurePlan) -> Slices[None]:
        """Reasons, filters and targets of audit entries that quote what goes, or name the
        ``namespace``. The entries stay: who, when, how many, which ids.
        """
        state, said = self._state, plan.said
        if plan.said_of_audit != said.size:
            plan.audited, plan.audit = None, []
            plan.said_of_audit = said.size
            if len(state.audit):
                plan.covers(state.table.count)
                stays = state.table.alive() & ~plan.doomed
                yield from said.all_is_said(words_of(state.table, stays))
        for number, position in enumerate(list(state.audit.after(plan.audited))):
            plan.audited = position
            quoting = self._quoting(plan, position)
            if quoting is not None:
                plan.audit.append(self._range_of(quoting))
            if number % _SLICE == _SLICE - 1:
                yield

    def _quoting(self, plan: ErasurePlan, position: int) -> int | None:
        """The record of an entry at ``position`` that says something that goes."""
        state, said = self._state, plan.said
        header = state.log.header(position)
        refused = header.kind == Kind.REFUSED
        at = position if refused else self._auditor.asked_at(position, header)
        if at is None or state.is_erased_at(at):
            return None
        body = self._control_at(at)
        target = body.get(F[ControlField.TARGET])
        filter_said = target.get("filter") if isinstance(target, dict) else None
        filter_said = body.get(M[MemoryField.FILTER], filter_said)
        if _names(filter_said, plan.namespace) or said.is_filtered_by(filter_said):
            return at
        reason = body.get(F[ControlField.REASON])
        if not isinstance(reason, str):
            return None
        about = self._is_about(plan, position, header, target)
        return at if said.is_quoted_in(reason, all_of_it=about) else None

    def _range_of(self, position: int) -> Range:
        return position + HEADER_BYTES, self._state.log.header(position).body_length

    def _is_about(self, plan: ErasurePlan, position: int, header: Header, target: Any) -> bool:
        """Whether an entry names one of those that go."""
        table = self._state.table
        if header.kind == Kind.REFUSED:
            held = target if isinstance(target, dict) else {}
            named: Iterable[Any] = (held.get("id"), *(held.get("ids") or ()))
            rows = table.find_many([i for each in named if (i := any_id(each)) is not None])
        else:
            try:
                rows = table.find_packed(packed_in(self._control_at(position)))
            except Corrupt:
                return False
        plan.covers(table.count)
        return bool(plan.doomed[rows].any())


def _by_row(column: Array, count: int) -> Array:
    """As long as the table is by now."""
    return np.append(column, np.zeros(max(0, count - len(column)), column.dtype))


def _context(body: Body) -> str:
    held = body.get(M[MemoryField.CONTEXT], "")
    return held if isinstance(held, str) else ""


def _names(filter_said: Any, namespace: Namespace | None) -> bool:
    """Whether a filter names the namespace, or one below it."""
    place = filter_said.get("namespace") if isinstance(filter_said, dict) else None
    return namespace is not None and isinstance(place, list) and within(tuple(place), namespace)
