"""What is said of a memory later: new versions and tags. Each is one staged batch.

A version is a whole record that names the one before it; nothing is changed in place. A revision
retires the chunks and the summary of the version before, in the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import to_builtins

from neverforget.storage.control import Body
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_checks import check_tags, unique
from neverforget.storage.longterm_content import (
    changed_content,
    check_changes,
    content_of,
    said_in,
)
from neverforget.storage.longterm_fields import M, MemoryField, id_in, pack_ids
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import (
    STATUS_NAMES,
    Changes,
    MemoryView,
    Remembered,
    Status,
)
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.repeats import Repeated


def revised_body(state: LongTermState, row: int, body: Body) -> Body:
    """``body`` as the version that follows the current one of ``row``."""
    table = state.table
    made = dict(body)
    made[M[MemoryField.VERSION]] = table.get(row, "version") + 1
    made[M[MemoryField.PREVIOUS]] = table.get(row, "position")
    made[M[MemoryField.CREATED_AT]] = table.get(row, "created_at")
    children = table.children(row)
    retired = children[table.column("status")[children] < Status.FORGOTTEN]
    if len(retired):
        made[M[MemoryField.CASCADE]] = pack_ids(state.ids(retired))
    return made


def with_tags(state: LongTermState, row: int, content: Body) -> Body:
    """``content`` with the tags that the memory has now."""
    tags = state.table.tags.values[state.table.get(row, "tags")]
    content.pop(M[MemoryField.TAGS], None)
    if tags:
        content[M[MemoryField.TAGS]] = list(tags)
    return content


class Reviser:
    def __init__(self, state: LongTermState, reads: LongTermReads, staging: Staging) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging

    def revise(
        self,
        memory_id: str,
        changes: Changes,
        expect_version: int | None,
        by: str,
        request: Request,
    ) -> Remembered:
        changed = check_changes(changes)
        digest = request_digest("revise", [memory_id, to_builtins(changes), expect_version, by])

        def content(row: int) -> Body:
            _, body = self._state.bodies.read(self._state.table.get(row, "position"))
            return changed_content(with_tags(self._state, row, content_of(body)), changed)

        return self._write(memory_id, content, expect_version, by, request, digest)

    def revert(
        self,
        memory_id: str,
        version: int,
        expect_version: int | None,
        by: str,
        request: Request,
    ) -> Remembered:
        digest = request_digest("revert", [memory_id, version, expect_version, by])

        def content(row: int) -> Body:
            return content_of(self._reads.version(row, version)[1])

        return self._write(memory_id, content, expect_version, by, request, digest)

    def _write(
        self,
        memory_id: str,
        content: Callable[[int], Body],
        expect_version: int | None,
        by: str,
        request: Request,
        digest: bytes,
    ) -> Remembered:
        state = self._state
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        row = self._row(memory_id)
        version = state.table.get(row, "version")
        if expect_version is not None and expect_version != version:
            raise Conflict(
                f"memory {memory_id} is at version {version}, not {expect_version}; read it again",
                seq=version,
            )
        body = content(row)
        _, held = state.bodies.read(state.table.get(row, "position"))
        now_held = with_tags(state, row, content_of(held))
        same_tags = body.get(M[MemoryField.TAGS]) == now_held.get(M[MemoryField.TAGS])
        if same_tags and said_in(body) == said_in(now_held):
            return Remembered([self._reads.view(row)], [False], state.log.tail)
        body[M[MemoryField.BY]] = by
        planned = [Planned(Kind.REVISED, state.table.id(row), revised_body(state, row, body))]
        staged = self._staging.stage(planned, request, digest)
        return Remembered([self._reads.view(row)], [True], staged.end)

    def _answer_again(self, repeated: Repeated) -> Remembered:
        position, header = next(r for r in repeated.records if r[1].kind in CONTENT)
        row = self._state.table.find(id_in(header))
        assert row is not None
        status = STATUS_NAMES.get(Status(self._state.table.get(row, "status")), "gone")
        header, body = self._state.control(position)
        born = self._state.table.get(row, "born")
        view = view_of(header, position, body, status=status, born=born)
        return Remembered([view], [True], repeated.end)

    def _row(self, memory_id: str) -> int:
        row = self._reads.row(memory_id)
        if self._reads.is_derived(row):
            raise InvalidArgument(f"{memory_id} is made from another memory; change that one")
        return row

    # ---- tags ------------------------------------------------------------------------------------

    def tag(
        self, memory_id: str, tags: Sequence[str], given: bool, by: str, request: Request
    ) -> tuple[MemoryView, int]:
        """Give or take tags; what changes nothing writes nothing."""
        check_tags(tags)
        if not tags:
            raise InvalidArgument("no tags were named")
        kind = Kind.TAGGED if given else Kind.UNTAGGED
        digest = request_digest(kind.name, [memory_id, list(tags), by])
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            row = self._reads.row(memory_id, include_forgotten=True)
            return self._reads.view(row), repeated.end
        row = self._row(memory_id)
        table = self._state.table
        held = table.tags.values[table.get(row, "tags")]
        changing = [t for t in unique(tags) if (t in held) is not given]
        if not changing:
            return self._reads.view(row), self._state.log.tail
        body: Body = {M[MemoryField.TAGS]: changing, M[MemoryField.BY]: by}
        staged = self._staging.stage([Planned(kind, table.id(row), body)], request, digest)
        return self._reads.view(row), staged.end
