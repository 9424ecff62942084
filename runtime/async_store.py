"""``aio.open`` and ``AsyncStore``, on the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from neverforget.runtime import deploying, engine, reflecting, whole_store
from neverforget.runtime.address import StoreAddress
from neverforget.runtime.async_forgetting_methods import AsyncForgettingMethods
from neverforget.runtime.async_memory_methods import AsyncMemoryMethods
from neverforget.runtime.async_session import AsyncSession
from neverforget.runtime.async_working_methods import AsyncWorkingMethods
from neverforget.runtime.config import Config, Settings
from neverforget.runtime.reaching import HostChoice, Wanted
from neverforget.runtime.reflection_values import ReflectionReport
from neverforget.runtime.remote_verifying import with_replica
from neverforget.runtime.scope import NamespaceLike, Scope
from neverforget.runtime.status_values import Status, VerifyReport
from neverforget.runtime.store import Store
from neverforget.runtime.store_core import checked_agent, connecting, wanted_of
from neverforget.runtime.values import Page, SessionInfo

if TYPE_CHECKING:
    from neverforget.actors.embedder_contract import Embedder


async def open(
    path: str | os.PathLike[str],
    *,
    host: HostChoice = "auto",
    inline: bool = False,
    wait: float = 30.0,
    agent: str | None = None,
    namespace: NamespaceLike = (),
    config: Config | None = None,
    **overrides: Unpack[Settings],
) -> AsyncStore:
    """As ``neverforget.open``. Finding or starting a host is done in a worker thread; calls over
    sockets then use none. An inline store's calls run in worker threads.
    """
    wanted = wanted_of(host, inline, wait, config, overrides)
    scope = Scope().narrowed(namespace, agent=checked_agent(agent))
    return await _leased(deploying.path_of(path, wanted), wanted, scope)


async def connect(
    name: str,
    *,
    address: str = "auto",
    agent: str | None = None,
    namespace: NamespaceLike = (),
    deadline: float | None = None,
) -> AsyncStore:
    """As ``neverforget.connect``. A driver that is not connected to Ray yet blocks its loop while
    Ray connects it."""
    wanted = connecting(deadline)
    scope = Scope().narrowed(namespace, agent=checked_agent(agent))
    return await _leased(deploying.connected_path(name, address), wanted, scope)


async def _leased(path: Path, wanted: Wanted, scope: Scope) -> AsyncStore:
    found = engine.lease_if_open(path, wanted)
    if found is None:
        found = await asyncio.to_thread(engine.lease, path, wanted)
    held, settings = found
    return AsyncStore(held, scope.configured(settings), settings)


class AsyncStore(AsyncMemoryMethods, AsyncWorkingMethods, AsyncForgettingMethods):
    """``Store`` for event loops: the same names and arguments, every call that asks an owner a
    coroutine. ``session`` and ``scoped`` stay plain. Tasks may share it, of several loops too.
    """

    def scoped(
        self,
        *,
        namespace: NamespaceLike | None = None,
        agent: str | None = None,
        deadline: float | None = None,
    ) -> AsyncStore:
        """As ``Store.scoped``."""
        return AsyncStore(*self._narrowed(namespace, agent, deadline))

    def session(
        self, name: str, *, agent: str | None = None, namespace: NamespaceLike = ()
    ) -> AsyncSession:
        """As ``Store.session``. No I/O."""
        return AsyncSession(self._lease, self._scope, self._place(name, namespace), agent)

    async def sessions(
        self,
        *,
        namespace: NamespaceLike | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[SessionInfo]:
        """As ``Store.sessions``."""
        return await self._run(self._sessions(namespace, prefix, after, limit))

    async def namespaces(
        self,
        prefix: NamespaceLike = (),
        *,
        max_depth: int | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[tuple[str, ...]]:
        """As ``Store.namespaces``."""
        return await self._run(self._namespaces(prefix, max_depth, after, limit))

    async def status(self) -> Status:
        """As ``Store.status``."""
        return await self._run(self._status())

    async def settle(
        self,
        timeout: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Status:
        """As ``Store.settle``."""
        wait = self._due_wait(timeout)
        waits = await self._run(wait.look())
        while waits:
            await asyncio.sleep(reflecting.PAUSE_S)
            waits = await self._run(wait.look())
        return await self._run(self._settle(timeout, progress))

    async def reflect(
        self,
        session: AsyncSession | None = None,
        *,
        again: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ReflectionReport:
        """As ``Store.reflect``."""
        run = self._reflection(session, again, progress)
        runs = await self._run(run.look())
        while runs:
            await asyncio.sleep(reflecting.PAUSE_S)
            runs = await self._run(run.look())
        return run.report()

    async def reindex(
        self,
        *,
        embedder: str | Embedder,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """As ``Store.reindex``."""
        name = self._lent_name(embedder)
        reply = await self._run(whole_store.reindex(name, True))
        while whole_store.is_running(reply, progress):
            await asyncio.sleep(whole_store.REINDEX_PAUSE_S)
            begin = reply.state == whole_store.IDLE  # its owner was started again since
            reply = await self._run(whole_store.reindex(name, begin))
        self._took_embedder(name)

    async def verify(self, *, remote: bool = False) -> VerifyReport:
        """As ``Store.verify``; the replica is read in a worker thread."""
        url = self._replica_to_verify(remote)
        report = await self._run(self._verify())
        if url is None:
            return report
        return await asyncio.to_thread(with_replica, report, await self.status(), url)

    async def backup(
        self,
        directory: str | os.PathLike[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """As ``Store.backup``; the copy is synced to disk when this returns. That of a deployed
        store is written in a worker thread, which calls ``progress``."""
        if self._deployed:
            plain = Store(self._lease, self._scope, self._config)
            await asyncio.to_thread(plain.backup, directory, progress)
            return
        await self._run(self._backup(directory, progress))

    async def close(self) -> None:
        """As ``Store.close``."""
        if self._engine.inline:
            await asyncio.to_thread(self._lease.end)  # it may be the last: draining and sealing
        else:
            self._lease.end()

    async def __aenter__(self) -> AsyncStore:
        self._lease.check()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> AsyncStore:
        self._lease.check()
        return AsyncStore(engine.again(self._engine), self._scope, self._config)

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncStore:
        return self.__copy__()


def _attach(address: StoreAddress) -> AsyncStore:
    return AsyncStore(*address.attach())
