"""The reading half of a long-term region. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_fields import (
    CHUNK,
    Id,
    M,
    MemoryField,
    any_id,
    id_in,
    id_text,
    is_derived_type,
    key_hash,
)
from neverforget.storage.longterm_filters import (
    row_matches,
    rows_between,
)
from neverforget.storage.longterm_matching import Matching
from neverforget.storage.longterm_relation_reads import RelationReads
from neverforget.storage.longterm_results import (
    STATUS_NAMES,
    MemoryFilter,
    MemoryPage,
    MemoryView,
    Namespace,
    Status,
)
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.longterm_where import Where
from neverforget.storage.record import Header
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.slices import in_one_go
from neverforget.storage.window_parts import check_limit

UNREADABLE = "unreadable"
_LIMIT_MAX = 10_000
_BODIES_MAX = 2_000  # looked at for a page with ``where``: 40 ms


class LongTermReads(RelationReads):
    """Answers are bounded by ``limit`` and the options' ``reply_bytes_max``. A memory that is
    forgotten is NotFound unless the caller says ``include_forgotten``; one that is gone always is.
    """

    def __init__(self, state: LongTermState, options: RegionOptions) -> None:
        self._state = state
        self._options = options

    @property
    def reply_bytes_max(self) -> int:
        return self._options.reply_bytes_max

    @property
    def scan_records_max(self) -> int:
        return self._options.scan_records_max

    # ---- one memory ------------------------------------------------------------------------------

    def get(self, memory_id: str, *, include_forgotten: bool = False) -> MemoryView:
        """Raises NotFound, Corrupt."""
        return self.view(self.row(memory_id, include_forgotten=include_forgotten))

    def get_many(
        self, ids: Sequence[str], *, include_forgotten: bool = False
    ) -> list[MemoryView | None]:
        """In the order asked, None for those that are not there. Raises Corrupt."""
        found: list[MemoryView | None] = []
        for memory_id in ids:
            try:
                found.append(self.get(memory_id, include_forgotten=include_forgotten))
            except NotFound:
                found.append(None)
        return found

    def by_key(self, namespace: Namespace, key: str) -> MemoryView:
        """Raises NotFound, Corrupt."""
        row = self.holder(namespace, key)
        if row is None:
            raise NotFound(f"no memory holds the key {key!r} in {'/'.join(namespace) or '()'}")
        return self.view(row)

    def row(self, memory_id: str, *, include_forgotten: bool = False) -> int:
        """Raises NotFound."""
        wanted = any_id(memory_id)
        row = None if wanted is None else self._state.table.find(wanted)
        if row is not None:
            status = self._state.table.get(row, "status")
            if status < Status.FORGOTTEN or (include_forgotten and status == Status.FORGOTTEN):
                return row
        raise NotFound(f"no memory {memory_id!r}")

    def holder(self, namespace: Namespace, key: str) -> int | None:
        """The row of the memory that holds a key: the body is asked, a hash only says where."""
        table = self._state.table
        code = table.namespaces.known(tuple(namespace))
        for row in reversed(table.holders(key_hash(namespace, key))):
            if table.get(row, "status") >= Status.FORGOTTEN or table.get(row, "namespace") != code:
                continue
            # Where its body is unreadable the key may well be its own: Corrupt, never "free".
            _, body = self._state.bodies.read(table.get(row, "position"))
            if body.get(M[MemoryField.KEY]) == key:
                return row
        return None

    def view(self, row: int) -> MemoryView:
        """Its current version, with the tags and status of now. Raises Corrupt."""
        table = self._state.table
        position = table.get(row, "position")
        header, body = self._state.bodies.read(position)
        return view_of(
            header,
            position,
            body,
            status=STATUS_NAMES.get(Status(table.get(row, "status")), "gone"),
            born=table.get(row, "born"),
            tags=self._tags(row),
        )

    def _tags(self, row: int) -> tuple[str, ...]:
        """A chunk or summary has those of its original."""
        original = self._state.original_of(row)
        table = self._state.table
        code = table.get(row if original is None else original, "tags")
        tags: tuple[str, ...] = table.tags.values[code]
        return tags

    def view_or_mark(self, row: int) -> MemoryView:
        """As ``view``, but a memory that cannot be read says so in its status."""
        try:
            return self.view(row)
        except Corrupt:
            return self._unreadable(row, self._state.table.get(row, "position"))

    def _unreadable(self, row: int, position: int) -> MemoryView:
        table = self._state.table
        return MemoryView(
            id_text(table.id(row)), "", None, table.types.values[table.get(row, "type")],
            self._tags(row), table.get(row, "importance"), 0.0, None,
            table.agents.values[table.get(row, "agent")], None,
            table.namespaces.values[table.get(row, "namespace")], {},
            table.get(row, "created_at"), None, None, None, None, table.get(row, "version"),
            UNREADABLE, position=position, born=table.get(row, "born"),
        )  # fmt: skip

    # ---- many ------------------------------------------------------------------------------------

    def memories(
        self,
        wanted: MemoryFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        newest: bool = False,
        limit: int = 100,
    ) -> MemoryPage:
        """Oldest first, in the order they were first remembered. ``after``/``before``: a cursor of
        another page, exclusive. ``before`` or ``newest``: the last ``limit`` of them. A page may be
        short, or empty, and say ``more``: then so many were looked at, and one goes on from there.
        """
        check_limit(limit)
        backwards = newest or (before is not None and after is None)
        where = None if not wanted.where else Where(wanted.where)
        looked_max = min(self._options.scan_records_max, _BODIES_MAX)
        found: list[MemoryView] = []
        n_bytes, more, looked, last = 0, False, 0, None
        for row in rows_between(self._state.table, wanted, after, before, backwards=backwards):
            full = len(found) == min(limit, _LIMIT_MAX) or n_bytes > self._options.reply_bytes_max
            if full or looked == looked_max:
                more = True
                break
            last = row
            if where is not None:
                looked += 1
                if not row_matches(self._state, row, where):
                    continue
            found.append(self.view_or_mark(row))
            n_bytes += 4 * len(found[-1].text) + 4 * len(found[-1].context or "")
        if last is None:
            return MemoryPage([], after, before, False)
        ends = [self._state.table.get(last, "born")] + [view.born for view in found]
        if backwards:
            found.reverse()
        return MemoryPage(found, max(ends), min(ends), more)

    def count(self, wanted: MemoryFilter) -> int:
        """How many match, all at once: with ``where`` every record is read."""
        found = Matching(self._state, wanted)
        in_one_go(found.look())
        return len(found.rows())

    # ---- versions --------------------------------------------------------------------------------

    def history(self, memory_id: str, *, include_forgotten: bool = False) -> list[MemoryView]:
        """Every version, oldest first, each with the tags it had when it was written, the last one
        with those of now. A version that cannot be read is marked; one that was erased is left out.
        """
        return list(self.history_back(memory_id, include_forgotten=include_forgotten))[::-1]

    def history_back(
        self, memory_id: str, *, include_forgotten: bool = False, before: int | None = None
    ) -> Iterator[MemoryView]:
        """As ``history``, newest first, each made when it is asked for. ``before``: the position of
        one of them, to go on behind it. Raises NotFound, Corrupt.
        """
        row = self.row(memory_id, include_forgotten=include_forgotten)
        if before is not None and id_in(self._state.log.header(before)) != self._state.table.id(
            row
        ):
            raise NotFound(f"memory {memory_id} has no version at position {before}")
        return self._views_back(row, before)

    def _views_back(self, row: int, before: int | None) -> Iterator[MemoryView]:
        table = self._state.table
        status = STATUS_NAMES[Status(table.get(row, "status"))]
        born, current = table.get(row, "born"), table.get(row, "position")
        for position, record in self.chain(row, before):
            if position == current:
                yield self.view_or_mark(row)
                continue
            try:
                if record is None:
                    raise Corrupt(f"the version at {position} cannot be read")
                yield view_of(record[0], position, record[1], status=status, born=born)
            except Corrupt:
                yield self._unreadable(row, position)

    def version(self, row: int, version: int) -> tuple[Header, dict[int, object]]:
        """The record of one version. Raises NotFound, Corrupt."""
        for position, record in self.chain(row):
            header, body = self._state.bodies.read(position) if record is None else record
            if body.get(M[MemoryField.VERSION], 1) == version:
                return header, body
        raise NotFound(f"memory {id_text(self._state.table.id(row))} has no version {version}")

    def versions(self, row: int) -> list[int]:
        """Positions of its content records, oldest first, without those that were erased."""
        return [position for position, _ in self.chain(row)][::-1]

    def chain(
        self, row: int, before: int | None = None
    ) -> Iterator[tuple[int, tuple[Header, Body] | None]]:
        """Its versions, newest first, where each stands and what it says; None: it cannot be read.
        What was erased is left out: so is what came before it, which went as well.
        """
        state = self._state
        born = state.table.get(row, "born")
        position = state.table.get(row, "position") if before is None else before
        handed_out = before is not None
        while True:
            record = self._record_at(position)
            if not handed_out:
                yield position, record
            handed_out = False
            if position == born:
                return
            previous = None if record is None else record[1].get(M[MemoryField.PREVIOUS])
            if previous is None:
                break
            if state.is_erased_at(previous):
                return
            position = previous
        for each in reversed(self._versions_by_headers(state.table.id(row))):
            if each < position and not state.is_erased_at(each):
                yield each, self._record_at(each)

    def _record_at(self, position: int) -> tuple[Header, Body] | None:
        try:
            return self._state.bodies.read(position)
        except Corrupt:
            return None

    def _versions_by_headers(self, wanted: Id) -> list[int]:
        """A link of the chain is lost: every header is asked."""
        found: list[int] = []
        for heads, positions in heads_of(self._state.log, self._state.log_seed):
            mine = (heads["session_id"] == np.uint64(wanted.high)) & np.isin(heads["kind"], CONTENT)
            found += positions[mine].tolist()
        return [p for p in found if id_in(self._state.log.header(p)) == wanted]

    # ---- chunks ----------------------------------------------------------------------------------

    def chunk_rows(self, memory_id: str) -> list[int]:
        """Of its living chunks, in the order of the text."""
        table = self._state.table
        children = table.children(self.row(memory_id))
        living = children[table.column("status")[children] < Status.FORGOTTEN].tolist()
        names = table.types.values
        return [row for row in living if names[table.get(row, "type")].endswith(CHUNK)]

    def original(self, chunk_id: str) -> MemoryView:
        """Of a chunk or summary; any other memory is its own."""
        row = self.row(chunk_id)
        original = self._state.original_of(row)
        return self.view(row if original is None else original)

    def is_derived(self, row: int) -> bool:
        table = self._state.table
        return is_derived_type(table.types.values[table.get(row, "type")])
