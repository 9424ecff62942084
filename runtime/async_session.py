"""``AsyncSession``: one conversation, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, overload

from neverforget.runtime import session_reading as reading
from neverforget.runtime.arguments import RAISE
from neverforget.runtime.async_channel import run
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.operation import Operation
from neverforget.runtime.session_core import FOLLOW_WAIT_S, NOTHING, SessionAddress, SessionCore
from neverforget.runtime.times import Moment
from neverforget.runtime.values import Confirmation, ErasureReport, Page, SessionInfo, Turn
from neverforget.storage.errors import NotFound

T = TypeVar("T")
D = TypeVar("D")


class AsyncSession(SessionCore):
    """``Session`` for event loops: the same names and arguments, every call that asks an owner a
    coroutine. ``async for turn in chat``, ``await chat[3]``; ``await chat.count()`` stands for len.

    A call that is cancelled is no longer waited for; what it asked may still be done. Tasks may
    share it.
    """

    async def _run(self, operation: Operation[T]) -> T:
        return await run(
            operation, self._lease.channel_here(asyncio.get_running_loop()), self._scope.deadline_s
        )

    # ---- writing ---------------------------------------------------------------------------------

    async def append(
        self,
        role: str,
        content: Any,
        *,
        name: str | None = None,
        call_id: str | None = None,
        metadata: Mapping[str, Any] = NOTHING,
        timestamp: Moment | None = None,
        token_count: int | None = None,
        key: str | None = None,
        expect_seq: int | None = None,
        sync: SyncLevel | None = None,
    ) -> Turn:
        """As ``Session.append``, and as durable: with ``sync="disk"`` the turn survives a crash of
        any process and a power loss once this returns, with "process" the crash of any process.
        """
        return await self._run(
            self._append(
                role,
                content,
                name,
                call_id,
                metadata,
                timestamp,
                token_count,
                key,
                expect_seq,
                sync,
            )
        )

    async def append_many(
        self,
        turns: Iterable[Mapping[str, Any]],
        *,
        expect_seq: int | None = None,
        sync: SyncLevel | None = None,
    ) -> list[Turn]:
        """As ``Session.append_many``: all or none, a process crash and (``sync="disk"``) a power
        loss included.
        """
        return await self._run(self._append_many(turns, expect_seq, sync))

    async def hide(self, seqs: int | Iterable[int], *, reason: str | None = None) -> None:
        """As ``Session.hide``; survives a process crash and a power loss."""
        await self._run(self._hide(seqs, True, reason))

    async def unhide(self, seqs: int | Iterable[int]) -> None:
        """As ``Session.unhide``; survives a process crash and a power loss."""
        await self._run(self._hide(seqs, False, None))

    async def fork(self, name: str, *, at: int) -> AsyncSession:
        """As ``Session.fork``; survives a process crash and a power loss."""
        target = self._forked(name)
        await self._run(self._fork(target, at))
        return AsyncSession(self._lease, self._scope, target, self._agent)

    async def erase(
        self,
        seqs: int | Iterable[int] | None = None,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """As ``Session.erase``: audited first, for good, and finished after a crash in between."""
        return await self._run(self._erase(seqs, confirm, reason, by))

    # ---- reading ---------------------------------------------------------------------------------

    async def tail(
        self,
        limit: int = 20,
        *,
        max_tokens: int | None = None,
        roles: str | Iterable[str] | None = None,
        include_hidden: bool = False,
    ) -> list[Turn]:
        """As ``Session.tail``."""
        return await self._run(self._tail(limit, max_tokens, roles, include_hidden))

    async def page(
        self,
        *,
        after: str | int | None = None,
        before: str | int | None = None,
        newest: bool = False,
        limit: int = 50,
        include_hidden: bool = False,
    ) -> Page[Turn]:
        """As ``Session.page``."""
        return await self._run(self._page(after, before, newest, limit, include_hidden))

    @overload
    async def get(self, seq: int) -> Turn: ...
    @overload
    async def get(self, seq: int, default: D) -> Turn | D: ...
    async def get(self, seq: int, default: Any = RAISE) -> Any:
        """As ``Session.get``."""
        found = await self._run(self._get(seq))
        if found is not None:
            return found
        if default is RAISE:
            raise NotFound(f"session {self.name!r} has no turn {seq}")
        return default

    @overload
    def __getitem__(self, index: int) -> Coroutine[Any, Any, Turn]: ...
    @overload
    def __getitem__(self, index: slice) -> Coroutine[Any, Any, list[Turn]]: ...
    def __getitem__(self, index: int | slice) -> Coroutine[Any, Any, Any]:
        """``await chat[3]``, ``await chat[-1]``, ``await chat[10:20]``: as of ``Session``."""
        return self._run(self._at(index))

    async def count(self) -> int:
        """How many turns there are, hidden and erased ones too: ``len`` of a ``Session``."""
        return await self._run(reading.count(self._place))

    async def info(self) -> SessionInfo:
        """As ``Session.info``."""
        return await self._run(reading.info(self._context, self._place))

    async def __aiter__(self) -> AsyncIterator[Turn]:
        """Every turn that is not hidden, from the first, fetched as needed."""
        after = -1
        while True:
            piece = await self._run(self._ahead(after))
            for turn in piece.turns:
                yield turn
            if not piece.more:
                return
            after = piece.stop - 1

    def follow(self, after: str | int | None = None) -> AsyncIterator[Turn]:
        """As ``Session.follow``: ``async for turn in chat.follow()`` does not end by itself."""
        return self._follow(self._seq_after(after))

    async def _follow(self, after: int) -> AsyncIterator[Turn]:
        while True:
            piece = await self._run(self._ahead(after))
            for turn in piece.turns:
                yield turn
            after = piece.stop - 1
            if not piece.more:
                await self._run(reading.wait(self._place, after, FOLLOW_WAIT_S))

    # ---- the handle ------------------------------------------------------------------------------

    async def __aenter__(self) -> AsyncSession:
        self._lease.check()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._owns_lease:  # it was unpickled: nobody else closes what it attached to
            self._lease.end()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> AsyncSession:
        return AsyncSession(self._lease, self._scope, self._place, self._agent)

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncSession:
        return self.__copy__()


def _attach(address: SessionAddress) -> AsyncSession:
    from neverforget.runtime.async_store import AsyncStore

    store = AsyncStore(*address.store.attach())
    place = store._context.place(address.namespace, address.name)
    session = AsyncSession(store._lease, store._scope, place, address.agent)
    session._owns_lease = True
    return session
