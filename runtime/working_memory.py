"""``WorkingMemory``: what an agent has in mind, in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from neverforget.runtime import working_operations as asking
from neverforget.runtime.memory_values import Hits, Memory
from neverforget.runtime.operation import Operation
from neverforget.runtime.session import Session
from neverforget.runtime.working_core import WorkingAddress, WorkingCore
from neverforget.runtime.working_values import (
    Context,
    ContextStrategy,
    WorkingItem,
    WorkingMember,
)

if TYPE_CHECKING:
    from neverforget.runtime.finding_methods import FindingMethods

T = TypeVar("T")


class WorkingMemory(WorkingCore):
    """The few memories that an agent, or a group of agents, has in mind: bounded by tokens, and
    ready for a prompt.

    Made by ``store.working_memory()``, without any I/O. It is known by the view's namespace and the
    name of the group, else of the agent: whoever uses the same name there shares it, and sees what
    others change with the next call. It holds memories of the store, not copies: one that is
    revised is revised here, one that is forgotten, archived or erased is gone.

    The budget is that of whoever added or recalled last. What no longer fits is evicted, the least
    important first, of equal ones the oldest, but never what is pinned nor what was just added; so
    are those beyond 10,000. An eviction is no deletion: it is on record
    (``store.audit(operation="evict")``), and the memory stays in the store and can be recalled.

    Every change is as durable as ``remember``: with ``sync="disk"``, the default of the store, it
    survives a crash of any process and a power loss once the call returns. Threads and forked
    children may use it; it pickles as its address. Every method that asks the owner may raise
    ``Unavailable`` when none answers within the deadline, and ``StoreClosed``.
    """

    def __init__(
        self, store: FindingMethods, agent: str | None, group: str | None, max_tokens: int
    ) -> None:
        super().__init__(store, agent, group, max_tokens)
        self._store = store

    def _run(self, operation: Operation[T]) -> T:
        return self._store._run(operation)

    # ---- what is in it ---------------------------------------------------------------------------

    def add(self, memory: Memory | str, *, pinned: bool = False) -> tuple[str, ...]:
        """Add a memory, itself or by its id; of a chunk its original. One that is there already
        counts as used just now. Returns the ids of those that were evicted for it, in the order
        they left. ``pinned``: it is never evicted, until ``unpin``.

        Survives a crash of any process and, with ``sync="disk"``, a power loss, evictions included.
        Raises NotFound (no such memory in this view, or it is not active), InvalidArgument (it is
        larger than the budget, or than what the pinned ones leave of it: the numbers are told).
        """
        return self._run(asking.add(self._asker, memory, pinned))

    def recall(self, query: str, **as_recall: Any) -> Hits:
        """As ``Store.recall``, and what was found is added, the best first, as far as it fits into
        the budget together; of all of it one more access is counted. Returns all hits, those that
        do not fit, too. Durability as for ``add``: a crash of any process, a power loss.
        """
        hits = self._store.recall(query, **as_recall)
        self._run(asking.take(self._asker, hits))
        return hits

    def remove(self, id: Memory | str) -> None:
        """Take a memory out; it stays in the store. Of one that is not in it nothing changes.
        Survives a crash of any process and a power loss as ``add`` does. Raises NotFound (no such
        memory).
        """
        self._run(asking.change(self._asker, "remove", id))

    def pin(self, id: Memory | str) -> None:
        """Never evict this one; it comes first in every context. NotFound where it is not in.
        Survives a crash of any process and a power loss as ``add`` does.
        """
        self._run(asking.change(self._asker, "pin", id))

    def unpin(self, id: Memory | str) -> None:
        """It may be evicted again. Otherwise as ``pin``, also after a crash or power loss."""
        self._run(asking.change(self._asker, "unpin", id))

    def __len__(self) -> int:
        """How many memories are in it."""
        return self._run(asking.filling(self._asker)).memories

    def __iter__(self) -> Iterator[WorkingItem]:
        """What is in it, in the order it was added, fetched as needed."""
        after: int | None = 0
        while after is not None:
            items, after = self._run(asking.some(self._asker, after))
            yield from items

    def __contains__(self, memory: object) -> bool:
        """Is this memory, itself or by its id, in it? Of a chunk its original."""
        if isinstance(memory, WorkingItem):
            memory = memory.memory
        if not isinstance(memory, (Memory, str)):
            return False
        return self._run(asking.has(self._asker, memory))

    @property
    def utilization(self) -> float:
        """How much of its budget is used, 0 to 1."""
        return self._run(asking.utilization(self._asker))

    # ---- a context for a prompt ------------------------------------------------------------------

    def context(
        self,
        strategy: ContextStrategy = "balanced",
        *,
        max_tokens: int | None = None,
        conversation: Session | None = None,
    ) -> Context:
        """What is in it, ready for a prompt: ``str(context)`` or ``context.messages()``, neither
        ever above ``max_tokens`` (the handle's, unless given), counted by the store's tokenizer.

        The pinned memories come first, and must fit; then the others, as many as fit. strategy:
        which first. "recent": used last; "important": of highest importance; "balanced": half how
        often it was recalled, ln(1 + accesses) / ln(1 + the most of any), half how recently it was
        used, 1 / (1 + hours). What is not true any more comes last.

        conversation: a session of the same store whose newest turns are in it, too. They get at
        least half of what the pinned memories leave, the memories the rest, either what the other
        does not use; the oldest turns fall out first, a tool call together with its results. What
        falls out is summarized in its own words, in at most a tenth of the budget. Hidden, erased
        and unreadable turns are left out.

        InvalidArgument where the pinned memories do not fit.
        """
        return self._run(self._in_context(strategy, max_tokens, conversation))

    # ---- groups ----------------------------------------------------------------------------------

    def join(self) -> None:
        """Be a member, in the name of this handle's agent. The first member that is there is the
        active one, the others stand by: when it leaves, or asks nothing for 30 seconds, the next
        one is. Whoever comes back stands behind the others. Survives a crash of any process and a
        power loss as ``add`` does.
        """
        self._run(asking.attend(self._asker, "join"))

    def leave(self) -> None:
        """Be a member no longer; what is in it stays. Survives a crash of any process and a power
        loss as ``add`` does.
        """
        self._run(asking.attend(self._asker, "leave"))

    def members(self) -> list[WorkingMember]:
        """Who has joined, in that order, and which of them is active. A member that asks shows that
        it is there.
        """
        return self._run(asking.members(self._asker))

    # ---- the handle ------------------------------------------------------------------------------

    def __enter__(self) -> WorkingMemory:
        self._store._lease.check()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._owns_lease:  # it was unpickled: nobody else closes what it attached to
            self._store._lease.end()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> WorkingMemory:
        return WorkingMemory(self._store, self._agent, self._group, self._max_tokens)

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkingMemory:
        return self.__copy__()


def _attach(address: WorkingAddress) -> WorkingMemory:
    from neverforget.runtime.store import Store

    store = Store(*address.store.attach())
    found = WorkingMemory(store, address.agent, address.group, address.max_tokens)
    found._owns_lease = True
    return found
