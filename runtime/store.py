"""``open`` and ``Store``, in the caller's thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from neverforget.runtime import deploying, engine, reflecting, whole_store
from neverforget.runtime.address import StoreAddress
from neverforget.runtime.config import Config, Settings
from neverforget.runtime.forgetting_methods import ForgettingMethods
from neverforget.runtime.memory_methods import MemoryMethods
from neverforget.runtime.reaching import HostChoice, Wanted
from neverforget.runtime.reflection_values import ReflectionReport
from neverforget.runtime.remote_verifying import with_replica
from neverforget.runtime.scope import NamespaceLike, Scope
from neverforget.runtime.session import Session
from neverforget.runtime.status_values import Status, VerifyReport
from neverforget.runtime.store_core import checked_agent, connecting, wanted_of
from neverforget.runtime.store_path import real_path
from neverforget.runtime.values import Page, SessionInfo
from neverforget.runtime.working_methods import WorkingMethods

if TYPE_CHECKING:
    from neverforget.actors.embedder_contract import Embedder


def open(
    path: str | os.PathLike[str],
    *,
    host: HostChoice = "auto",
    inline: bool = False,
    wait: float = 30.0,
    agent: str | None = None,
    namespace: NamespaceLike = (),
    config: Config | None = None,
    **overrides: Unpack[Settings],
) -> Store:
    """Open the store in the directory ``path``, made if it does not exist; a leading ~ is the
    user's home.

    Attaches to the process that hosts the store, without importing Ray. Where nobody does: hosts
    it in this process if Ray is initialised here, else starts ``neverforget serve`` in the
    background, which ends a minute after its last client. ``host="never"`` only attaches.
    ``inline=True`` runs the store inside this process, without Ray; nobody else can use it then.
    ``wait``: seconds to wait for a host. ``agent`` and ``namespace``: of the view that is returned.
    Settings come from keywords (``sync="process"``), else from ``config``, else from the store.

    ``path`` "ray:NAME" or "ray:NAME@ADDRESS" is a deployed store, as for ``connect``.

    Raises StoreLocked (another process has it inline, or hosts it and ``inline`` was asked for),
    Unavailable (no host in time), InvalidArgument (a setting that this store has otherwise),
    UnsupportedFormat (written by a newer version, or no store).
    """
    wanted = wanted_of(host, inline, wait, config, overrides)
    scope = Scope().narrowed(namespace, agent=checked_agent(agent))
    held, settings = engine.lease(deploying.path_of(path, wanted), wanted)
    return Store(held, scope.configured(settings), settings)


def connect(
    name: str,
    *,
    address: str = "auto",
    agent: str | None = None,
    namespace: NamespaceLike = (),
    deadline: float | None = None,
) -> Store:
    """A handle on the store that was deployed as ``name`` on the Ray cluster at ``address``, from a
    driver, a task, an actor or a Serve replica on any of its nodes.

    This process is connected to that Ray if it is not yet, and stays so. Owners on this node are
    called through their sockets, others through Ray: ``status().owners`` shows which. ``deadline``:
    seconds that one request may take; within it, one whose node is away raises Unavailable.

    Raises NotFound (no such store is deployed there), Unavailable (no such Ray), InvalidArgument.
    """
    wanted = connecting(deadline)
    scope = Scope().narrowed(namespace, agent=checked_agent(agent))
    held, settings = engine.lease(deploying.connected_path(name, address), wanted)
    return Store(held, scope.configured(settings), settings)


def open_quietly(path: Path, *, agent: str | None = None) -> Store:
    """``open(inline=True)``, for who closes it in a moment: nothing is reflected by itself."""
    return opened(real_path(path), Wanted(inline=True, reflects=False), agent)


def opened(path: Path, wanted: Wanted, agent: str | None = None) -> Store:
    """A handle on the store at the real ``path``, reached as ``wanted``."""
    scope = Scope().narrowed((), agent=checked_agent(agent))
    held, settings = engine.lease(path, wanted)
    return Store(held, scope.configured(settings), settings)


class Store(MemoryMethods, WorkingMethods, ForgettingMethods):
    """A handle on a store, or a view of a part of it.

    Threads may share it; a forked child may go on using it, unless it is inline. It pickles as its
    address; unpickling attaches. Every method that asks an owner may raise ``Unavailable`` when
    none answers within the deadline, and ``StoreClosed``.
    """

    def scoped(
        self,
        *,
        namespace: NamespaceLike | None = None,
        agent: str | None = None,
        deadline: float | None = None,
    ) -> Store:
        """A view: ``namespace`` is prepended to every relative one, and nothing outside it can be
        seen or touched through it. ``agent`` appends and goes on the record; ``deadline``: seconds
        that one request may take, retries included. Ends with this handle at the latest.
        """
        return Store(*self._narrowed(namespace, agent, deadline))

    def session(
        self, name: str, *, agent: str | None = None, namespace: NamespaceLike = ()
    ) -> Session:
        """The session called ``name``. No I/O: it begins to exist with its first turn."""
        return Session(self._lease, self._scope, self._place(name, namespace), agent)

    def sessions(
        self,
        *,
        namespace: NamespaceLike | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[SessionInfo]:
        """Sessions at or below ``namespace`` whose names begin with ``prefix``, in the order of
        (namespace, name).
        """
        return self._run(self._sessions(namespace, prefix, after, limit))

    def namespaces(
        self,
        prefix: NamespaceLike = (),
        *,
        max_depth: int | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[tuple[str, ...]]:
        """Namespaces that hold sessions, at or below ``prefix``, sorted; cut to ``max_depth``
        elements, counted from this view.
        """
        return self._run(self._namespaces(prefix, max_depth, after, limit))

    def status(self) -> Status:
        """How host and owners stand, and what they hold."""
        return self._run(self._status())

    def settle(
        self,
        timeout: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Status:
        """Wait until everything acknowledged so far is durable, no session is due to be reflected,
        and every queue is empty.

        timeout: seconds that reflection, and then each owner, may take, then Unavailable; 0 is to
        look once. Unavailable, too, where sessions are due that cannot be reflected: nothing has
        come of it for 15 s. progress: called with (owners done, all).
        """
        wait = self._due_wait(timeout)
        while self._run(wait.look()):
            time.sleep(reflecting.PAUSE_S)
        return self._run(self._settle(timeout, progress))

    def reflect(
        self,
        session: Session | None = None,
        *,
        again: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ReflectionReport:
        """Make memories of everything that was said and waits for it, here and now: of one session,
        or of all that this view sees. By itself it is done every ``reflect_every_turns`` turns.

        Each memory is related to the turns that it was made from: ``provenance``. Failed ranges are
        tried again. ``again``: also what another extractor, or another version of it, was at
        before; memories that it made and that are made anew are superseded, not deleted. progress:
        called with (turns done, all).

        Returns when all of it is stored as durable as by ``remember``; interrupted, it goes on in
        the background. Raises InvalidArgument (``extractor="none"``), NotFound (a session outside
        this view), Unavailable (the extractor cannot be made, owners do not answer).
        """
        run = self._reflection(session, again, progress)
        while self._run(run.look()):
            time.sleep(reflecting.PAUSE_S)
        return run.report()

    def reindex(
        self,
        *,
        embedder: str | Embedder,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Embed every memory by another embedder and go over to it: a name as for ``open``, or an
        object where this process hosts the store. Recalls are answered with the vectors of before
        meanwhile. It goes on when this call is ended, until somebody asks for the embedder that the
        store has: that gives it up. progress: called with (memories done, all).

        Raises InvalidArgument (no such embedder), Unavailable (it fails; nothing has changed).
        """
        name = self._lent_name(embedder)
        reply = self._run(whole_store.reindex(name, True))
        while whole_store.is_running(reply, progress):
            time.sleep(whole_store.REINDEX_PAUSE_S)
            begin = reply.state == whole_store.IDLE  # its owner was started again since
            reply = self._run(whole_store.reindex(name, begin))
        self._took_embedder(name)

    def verify(self, *, remote: bool = False) -> VerifyReport:
        """Read everything, check every checksum, and list what is wrong. Takes as long as reading
        the log does; appends and reads go on meanwhile. ``remote``: read every object of the
        replica as well, and compare it with the log where that is on this machine.

        Raises InvalidArgument (``remote`` without a replica), Unavailable.
        """
        url = self._replica_to_verify(remote)
        report = self._run(self._verify())
        return report if url is None else with_replica(report, self.status(), url)

    def backup(
        self,
        directory: str | os.PathLike[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Copy the store, each partition as it is durable when its turn comes, into a new or empty
        directory on the host's node; of a deployed store, on the node of this process, gathered
        from all. The copy is itself a store, of the same id, without a replica. It is synced to
        disk when this returns; interrupted, it is no store yet. progress: called with (partitions
        done, all). See ``backups`` and ``verify_backup``.
        """
        self._run(self._backup(directory, progress))

    def close(self) -> None:
        """Let go of the store; this handle, its views and sessions raise StoreClosed from now on.

        The last handle of an inline store drains and seals it; a host in this process ends with its
        last handle, others go on. Nothing that was acknowledged depends on it. Idempotent.
        """
        self._lease.end()

    def __enter__(self) -> Store:
        self._lease.check()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> Store:
        self._lease.check()
        return Store(engine.again(self._engine), self._scope, self._config)

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        return self.__copy__()


def _attach(address: StoreAddress) -> Store:
    return Store(*address.attach())
