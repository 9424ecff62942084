"""What ``Store`` and ``AsyncStore`` share: everything but waiting.

A core holds a lease on the engine, the scope of the view, and its settings; it makes operations,
which the one kind of store runs in the caller's thread and the other on its event loop.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neverforget.runtime import store_operations, whole_store
from neverforget.runtime.address import StoreAddress
from neverforget.runtime.arguments import checked_cursor, checked_limit, whole
from neverforget.runtime.auditing import Record, audit, deletion_report
from neverforget.runtime.config import (
    STORE_TOML,
    Config,
    Settings,
    check_seconds,
    longterm_directory,
    named,
)
from neverforget.runtime.embedder_names import check_name
from neverforget.runtime.engine import Engine, Lease
from neverforget.runtime.gathering import gather
from neverforget.runtime.memory_arguments import checked_id
from neverforget.runtime.memory_values import DeletionReport, Memory
from neverforget.runtime.operation import Context, Operation, SessionPlace
from neverforget.runtime.reaching import Wanted
from neverforget.runtime.reflecting import DueWait, Reflection
from neverforget.runtime.scope import NamespaceLike, Scope, checked_name, checked_text
from neverforget.runtime.session_core import SessionCore
from neverforget.runtime.setting_checks import check_seconds_or_zero
from neverforget.runtime.status_values import Status, VerifyReport
from neverforget.runtime.store_path import real_path
from neverforget.runtime.stored_settings import store_toml, without_replica
from neverforget.runtime.timeframe_argument import RangeUs, TimeframeLike, resolved_us
from neverforget.runtime.values import AuditEntry, Page, SessionInfo
from neverforget.runtime.whole_store import Progress
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.audit_index import OPERATIONS
from neverforget.storage.errors import InvalidArgument, NeverforgetError, NotFound, OutOfSpace
from neverforget.storage.filesystem import LocalFileSystem

NAMESPACE_DEPTH_MAX = 64


class StoreCore:
    """The parts of a store's handle that need no answer from an owner."""

    def __init__(self, lease: Lease, scope: Scope, config: Config) -> None:
        self._lease = lease
        self._scope = scope
        self._config = config

    @property
    def _engine(self) -> Engine:
        return self._lease.engine

    @property
    def _context(self) -> Context:
        return self._lease.engine.context

    @property
    def config(self) -> Config:
        """Every effective setting; ``config.sources`` says where each came from."""
        return self._config

    @property
    def address(self) -> str:
        """What ``open`` needs to find this store again: its real path."""
        return str(self._engine.path)

    def __repr__(self) -> str:
        scope = self._scope
        parts = [repr(self.address)]
        if scope.root:
            parts.append(f"namespace={tuple(scope.root)!r}")
        if scope.agent is not None:
            parts.append(f"agent={scope.agent!r}")
        if self._engine.inline:
            parts.append("inline=True")
        if self._lease.ended:
            parts.append("closed")
        return f"<{type(self).__name__} {', '.join(parts)}>"

    def _narrowed(
        self, namespace: NamespaceLike | None, agent: str | None, deadline: float | None
    ) -> tuple[Lease, Scope, Config]:
        """What a view is made of."""
        self._lease.check()
        changes: dict[str, Any] = {}
        config = self._config
        if agent is not None:
            changes["agent"] = checked_name(agent, "agent")
        if deadline is not None:
            check_seconds("deadline", deadline)
            changes["deadline_s"] = float(deadline)
            config = config.replaced(deadline_s=float(deadline))
        view = Lease(self._engine, self._lease)
        return view, self._scope.narrowed(namespace, **changes), config

    def _place(self, name: str, namespace: NamespaceLike) -> SessionPlace:
        return SessionPlace(
            self._scope.place(namespace),
            checked_name(name, "a session's name"),
            self._context.partitions,
        )

    def _pickled(self) -> StoreAddress:
        """The address, TypeError for an inline store, or StoreClosed."""
        self._lease.check()  # here, and not where it arrives: there nobody knows what was closed
        return StoreAddress.of(self._engine, self._scope)

    def _lent_name(self, embedder: object) -> str:
        """The name by which owners know an embedder; an object is lent to them."""
        self._lease.check()
        if isinstance(embedder, str):
            check_name(embedder)
            return embedder
        return self._engine.reach.lend_embedder(embedder)

    def _took_embedder(self, name: str) -> None:
        sources = {**self._config.sources, "embedder": "store"}
        self._config = self._config.replaced(embedder=name).with_sources(sources)

    # ---- operations ------------------------------------------------------------------------------

    def _sessions(
        self,
        namespace: NamespaceLike | None,
        prefix: str | None,
        after: str | None,
        limit: int,
    ) -> Operation[Page[SessionInfo]]:
        return store_operations.sessions(
            self._context,
            self._scope.filter(namespace),
            None if prefix is None else checked_text(prefix, "prefix"),
            checked_cursor(after),
            checked_limit(limit),
        )

    def _namespaces(
        self,
        prefix: NamespaceLike,
        max_depth: int | None,
        after: str | None,
        limit: int,
    ) -> Operation[Page[tuple[str, ...]]]:
        if max_depth is not None:
            max_depth = whole(max_depth, "max_depth", 1, NAMESPACE_DEPTH_MAX)
            max_depth += len(self._scope.root)  # counted from where this view stands
        return store_operations.namespaces(
            self._context,
            self._scope.place(prefix),
            max_depth,
            checked_cursor(after),
            checked_limit(limit),
        )

    def _audit(
        self,
        operation: str | None,
        by: str | None,
        target: object,
        timeframe: TimeframeLike,
        after: str | None,
        limit: int,
    ) -> Operation[Page[AuditEntry]]:
        asked = Record(
            self._scope.root,
            _checked_operation(operation),
            None if by is None else checked_text(by, "by"),
            _checked_target(target),
            self._span(timeframe),
        )
        return audit(self._context, asked, timeframe, checked_cursor(after), checked_limit(limit))

    def _deletion_report(self, timeframe: TimeframeLike) -> Operation[DeletionReport]:
        return deletion_report(self._context, self._scope.root, self._span(timeframe))

    def _span(self, timeframe: TimeframeLike) -> RangeUs:
        found = resolved_us(timeframe, clock=self._context.clock, tz=self._scope.timezone)
        return (None, None) if found is None else found

    def _status(self) -> Operation[Status]:
        engine = self._engine
        return whole_store.status(
            self._context,
            whole_store.Asked(
                engine.store_id,
                str(engine.path),
                self._config.embedder_name,
                self._config.extractor_name,
                self._scope.root,
                engine.reach.hosted,
                engine.reach.reflects(),
                engine.reach.through,
            ),
        )

    def _reflection(self, session: object, again: bool, progress: Progress | None) -> Reflection:
        self._lease.check()
        namespace, name = self._scope.root, None
        if session is not None:
            if not isinstance(session, SessionCore) or session._lease.engine is not self._engine:
                raise InvalidArgument(
                    f"session is {session!r}; pass one that this store's session() returned"
                )
            namespace, name = self._scope.place(session._place.namespace), session.name
        if not isinstance(again, bool):
            raise InvalidArgument(f"again is {again!r}; pass True or False")
        extractor = self._config.extractor_name
        return Reflection(self._context, extractor, namespace, name, again, progress)

    def _due_wait(self, timeout: float | None) -> DueWait:
        if timeout is not None:
            check_seconds_or_zero("timeout", timeout)
        return DueWait(self._context, self._config.extractor_name, timeout)

    def _settle(self, timeout: float | None, progress: Progress | None) -> Operation[Status]:
        yield from whole_store.settle(self._context, timeout, progress)
        return (yield from self._status())

    def _replica_to_verify(self, remote: bool) -> str | None:
        """Its URL, where it is to be read; None: it is not."""
        if not isinstance(remote, bool):
            raise InvalidArgument(f"remote is {remote!r}; pass True or False")
        if remote and self._config.replica is None:
            raise InvalidArgument(
                "this store has no replica; open it with replica=... to have one (a deployed one: "
                "set settings.replica and deploy again)"
            )
        return self._config.replica if remote else None

    def _verify(self) -> Operation[VerifyReport]:
        return whole_store.verify(self._context)

    def _backup(
        self, directory: str | os.PathLike[str], progress: Progress | None
    ) -> Operation[None]:
        from neverforget.runtime import backups

        target = real_path(directory, "directory")
        source, deployed = self._engine.path, self._deployed
        regions, longterm = target / "regions", longterm_directory(target)
        with _writing(target):
            _check_backup_place(target, source)
            backups.begin_backup(target)
            for folder in (regions, longterm.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy = gather if deployed else whole_store.backup
            copied = yield from copy(self._context, regions, longterm, progress)
        fs = LocalFileSystem()
        with _writing(target):
            if deployed:
                settings = store_toml(self._config.replaced(replica=None))
            else:
                kept = source / STORE_TOML
                settings = kept.read_bytes() if kept.exists() else b""
            write_atomic(fs, target / STORE_TOML, without_replica(settings))
            for folder in (regions, longterm.parent):
                fs.sync_directory(folder)
            backups.end_backup(target, self._engine.store_id, copied)

    @property
    def _deployed(self) -> bool:
        """Its parts lie on the nodes of a cluster."""
        return self._engine.reach.kind == "deployed"


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """What the system says about ``target`` as an error of ours."""
    try:
        yield
    except NeverforgetError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpace(
                f"no room for a backup in {target}; free some, or choose another place"
            ) from error
        raise InvalidArgument(
            f"{target} cannot be written: {error.strerror}; back up to another place"
        ) from error


def _check_backup_place(target: Path, source: Path) -> None:
    if target == source or source in target.parents:
        raise InvalidArgument(f"{target} lies within the store itself; back up to another place")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidArgument(f"{target} is not empty; back up to a new or an empty directory")


def _checked_operation(operation: str | None) -> str | None:
    if operation is not None and operation not in OPERATIONS.values():
        raise InvalidArgument(
            f"operation is {operation!r}; on the record are {', '.join(OPERATIONS.values())}"
        )
    return operation


def checked_agent(agent: str | None) -> str | None:
    """An agent's name, or None."""
    return None if agent is None else checked_name(agent, "agent")


def _checked_target(target: object) -> SessionPlace | str | None:
    """A session's place, or a memory's id."""
    if target is None:
        return None
    if isinstance(target, SessionCore):
        return target._place
    if isinstance(target, Memory):
        return target.id
    try:
        return checked_id(target, "target")
    except (InvalidArgument, NotFound):
        raise InvalidArgument(
            f"target is {target!r}; pass a Session, a Memory, or a memory's id"
        ) from None


def wanted_of(
    host: Any, inline: bool, wait: float, config: Config | None, overrides: Settings
) -> Wanted:
    """``open``'s arguments, checked."""
    if host not in ("auto", "never"):
        raise InvalidArgument(f'host is {host!r}; pass "auto" or "never"')
    if not isinstance(inline, bool):
        raise InvalidArgument(f"inline is {inline!r}; pass True or False")
    check_seconds("wait", wait)
    return Wanted(host, inline, float(wait), asked=named(config, overrides))


def connecting(deadline: float | None) -> Wanted:
    """``connect``'s arguments, checked."""
    config = Config()
    if deadline is not None:
        check_seconds("deadline", deadline)
        config = Config(deadline_s=float(deadline))
    return Wanted("never", create=False, asked=config)
