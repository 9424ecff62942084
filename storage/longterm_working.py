"""Working memories of a long-term region: what is done to them, and what is in them.

A change is one staged batch. It says who was evicted to make room: the least important first, of
these the oldest, never what is pinned, never what is just being added. So the budget holds after
every change, and after a crash at any point it is as it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import to_builtins

from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_checks import check_name, check_namespace
from neverforget.storage.longterm_fields import M, MemoryField, id_of, id_text, packed_id
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_relation_reads import DERIVED_FROM
from neverforget.storage.longterm_results import Namespace, Status, TurnPoint
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.repeats import Repeated
from neverforget.storage.working_bodies import ADDING, OPERATIONS, Change, change_in
from neverforget.storage.working_memory import WorkingMemory
from neverforget.storage.working_results import (
    Worked,
    WorkingItem,
    WorkingPage,
    WorkingPlace,
    WorkingTask,
)
from neverforget.storage.working_room import ITEMS_MAX, leaving, must_fit, while_they_fit

MEMBERS_MAX = 1_000  # of one working memory
PROVENANCE_MAX = 8  # turns said with an item
_PAGE_MAX = 250  # items: 5 ms
_NOWHERE = WorkingMemory(WorkingPlace((), "", False))  # what one is that nobody has used


class LongTermWorking:
    """A part of ``LongTermRegion``. ``count_tokens``: of a text, by the store's tokenizer."""

    def __init__(
        self,
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        count_tokens: Callable[[str], int],
    ) -> None:
        self._working_reads = reads
        self._working_staging = staging
        self._state = state
        state.working.count = count_tokens

    # ---- changing --------------------------------------------------------------------------------

    def work(
        self, task: WorkingTask, *, by: str, request: Request, digest: bytes | None = None
    ) -> Worked:
        """Stage what is to be done; see ``WorkingTask``. A chunk stands for its original. Raises
        NotFound for what is no active memory, or is not in it where that must be; InvalidArgument
        for what does not fit, with the numbers. ``digest``: of the request, where another owner was
        asked.
        """
        _check(task)
        digest = digest or request_digest("work", [to_builtins(task), by])
        repeated = self._working_staging.repeated(request, digest)
        if repeated is not None:
            return self._worked_again(task.place, repeated)
        memory = self._state.working.find(task.place) or _NOWHERE
        if task.operation in ADDING:
            change = self._adding(memory, task, by)
        else:
            change = self._changing(memory, task, by)
        if change is None:
            return self._answer(task.place, (), self._state.log.tail)
        records = self._state.working.records(task.place, change)
        planned = [Planned(*record) for record in records]
        end = self._working_staging.stage(planned, request, digest).end
        return self._answer(task.place, change.evicted, end)

    def _adding(self, memory: WorkingMemory, task: WorkingTask, by: str) -> Change | None:
        """None: there is nothing to change."""
        budget = task.max_tokens or memory.budget
        if not budget:
            raise InvalidArgument("this working memory has no budget yet; pass max_tokens")
        recalled = task.operation == "recall"
        taken = self._counted(task.ids, skip=recalled)
        items = memory.items
        kept = {
            wanted: items[wanted].tokens
            for wanted in memory.pinned
            if recalled or wanted not in taken
        }
        room = budget - sum(kept.values())
        if room < 0:
            raise InvalidArgument(
                f"what is pinned takes {budget - room:,} tokens, more than the budget of "
                f"{budget:,}; unpin some of it, or ask for a larger budget"
            )
        if recalled:
            taken = while_they_fit(taken, kept, room)
        else:
            must_fit(taken, room, budget)
        if not taken and budget == memory.budget:
            return None
        known = [items[wanted].tokens for wanted in taken if wanted in items]
        count = len(items) + len(taken) - len(known)
        evicted = leaving(
            memory,
            self._state.table,
            tokens=memory.tokens + sum(taken.values()) - sum(known),
            count=count,
            budget=budget,
            staying=taken,
        )
        if count - len(evicted) > ITEMS_MAX:
            raise InvalidArgument(
                f"a working memory holds at most {ITEMS_MAX:,} memories, and {len(kept):,} are "
                "pinned; unpin or remove some of them, or add less"
            )
        return Change(
            task.operation,
            by,
            tuple(taken),
            tuple(taken.values()),
            task.pinned and not recalled,
            evicted=tuple(evicted),
            budget=budget if budget != memory.budget else None,
        )

    def _changing(self, memory: WorkingMemory, task: WorkingTask, by: str) -> Change | None:
        """None: there is nothing to change."""
        operation, items = task.operation, memory.items
        if operation in ("join", "leave"):
            return _membership(memory, task, by)
        named = tuple(dict.fromkeys(self._original(each) for each in task.ids))
        if operation == "remove":
            left = tuple(wanted for wanted in named if wanted in items)
            return Change(operation, by, left=left) if left else None
        for wanted in named:
            if wanted not in items:
                raise NotFound(f"memory {id_text(id_of(wanted))} is not in this working memory")
        pinned = operation == "pin"
        taken = tuple(wanted for wanted in named if items[wanted].pinned is not pinned)
        return Change(operation, by, taken) if taken else None

    def _counted(self, ids: Sequence[str], *, skip: bool) -> dict[bytes, int]:
        """Tokens of the memories that ids mean. ``skip``: those that are not there, not active or
        not to be read are left out instead of refused: a hit may have been forgotten since.
        """
        found: dict[bytes, int] = {}
        for each in ids:
            try:
                wanted = self._original(each)
                if wanted not in found:
                    found[wanted] = self._tokens_of(wanted)
            except (NotFound, Corrupt):
                if not skip:
                    raise
        return found

    def _tokens_of(self, wanted: bytes) -> int:
        state, named = self._state, id_text(id_of(wanted))
        row = self._working_reads.row(named)
        if state.table.get(row, "status") != Status.ACTIVE:
            raise NotFound(f"memory {named!r} is archived; unarchive it first")
        _, body = state.bodies.read(state.table.get(row, "position"))
        return state.working.tokens_in(body[M[MemoryField.TEXT]])

    def _original(self, memory_id: str) -> bytes:
        """Of a chunk or summary; of any other memory its own id, whatever became of it."""
        reads, table = self._working_reads, self._state.table
        row = reads.row(memory_id, include_forgotten=True)
        original = self._state.original_of(row)
        return packed_id(table.id(row if original is None else original))

    # ---- answering -------------------------------------------------------------------------------

    def _worked_again(self, place: WorkingPlace, repeated: Repeated) -> Worked:
        position = next(p for p, header in repeated.records if header.kind == Kind.WORKED)
        change = change_in(self._state.control(position)[1])
        return self._answer(place, change.evicted, repeated.end)

    def _answer(self, place: WorkingPlace, evicted: Sequence[bytes], end: int) -> Worked:
        page = self.working_status(place)
        named = [id_text(id_of(wanted)) for wanted in evicted]
        return Worked(page.count, page.tokens, page.max_tokens, named, end)

    # ---- reading ---------------------------------------------------------------------------------

    def working_status(self, place: WorkingPlace) -> WorkingPage:
        """Without items."""
        memory = self._state.working.find(place) or _NOWHERE
        return WorkingPage([], None, len(memory.items), memory.tokens, memory.budget)

    def is_working(self, place: WorkingPlace, memory_id: str) -> bool:
        """Is the memory, or the original of the chunk, in it?"""
        memory = self._state.working.find(place) or _NOWHERE
        try:
            return self._original(memory_id) in memory.items
        except NotFound:
            return False

    def working_items(
        self, place: WorkingPlace, *, after: int = 0, scope: Namespace = (), limit: int = _PAGE_MAX
    ) -> WorkingPage:
        """In the order they were added, behind ``after``; the page may be short. Items outside of
        ``scope`` are not seen, but counted.
        """
        memory = self._state.working.find(place) or _NOWHERE
        page = self.working_status(place)
        n_bytes, last = 0, after
        for wanted, item in memory.items.items():
            if item.order <= after:
                continue
            if len(page.items) == limit or n_bytes > self._working_reads.reply_bytes_max:
                page.next = last
                break
            last = item.order
            row = self._state.table.find(id_of(wanted))
            assert row is not None, "what is in a working memory is a memory"
            view = self._working_reads.view_or_mark(row)
            if within(view.namespace, scope):
                provenance = list(islice(self._turns_of(view.id, scope), PROVENANCE_MAX))
                n_bytes += 600 + 4 * len(view.text) + 4 * len(view.context or "")
                page.items.append(
                    WorkingItem(
                        view, item.tokens, item.pinned, item.added_at, item.used_at, item.accesses,
                        provenance,
                    )
                )  # fmt: skip
        return page

    def _turns_of(self, memory_id: str, scope: Namespace) -> Iterator[TurnPoint]:
        relations = self._working_reads.relations_from(
            memory_id, kind=DERIVED_FROM, direction="out"
        )
        for _, relation in islice(relations, 8 * PROVENANCE_MAX):
            target = relation.target
            if isinstance(target, TurnPoint) and within(tuple(target.namespace), scope):
                yield target

    def working_members(self, place: WorkingPlace) -> dict[str, int]:
        """When each joined, in that order."""
        return dict((self._state.working.find(place) or _NOWHERE).members)


def _check(task: WorkingTask) -> None:
    if task.operation not in OPERATIONS:
        raise InvalidArgument(f"there is no operation {task.operation!r} on a working memory")
    check_name(task.place.name, "name of a working memory")
    check_namespace(tuple(task.place.namespace))
    about_member = task.operation in ("join", "leave")
    if about_member:
        check_name(task.agent, "agent")
    if bool(task.ids) is about_member:
        raise InvalidArgument(
            f"{task.operation} names no memories" if about_member else "no memory was named"
        )


def _membership(memory: WorkingMemory, task: WorkingTask, by: str) -> Change | None:
    agent = task.agent
    assert agent is not None, "checked"
    if (agent in memory.members) is (task.operation == "join"):
        return None
    if task.operation == "join" and len(memory.members) == MEMBERS_MAX:
        raise InvalidArgument(
            f"a working memory has at most {MEMBERS_MAX:,} members; let those leave that are gone: "
            f"store.working_memory(agent=…, group={task.place.name!r}).leave()"
        )
    is_new = task.operation == "join" and not memory.budget
    budget = task.max_tokens if is_new and task.max_tokens else None
    return Change(task.operation, by, budget=budget, member=agent)
