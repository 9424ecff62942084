"""One engine per process and real path: what all handles on a store share.

Opening a path again, as a notebook cell that is run twice does, gives another lease on the same
engine; the last lease ends it. A forked child keeps engines that are attached (their channels start
afresh there) and forgets inline ones, which are its parent's.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from sys import is_finalizing
from typing import TYPE_CHECKING

from neverforget.actors.tokenizers import TokenCounter
from neverforget.runtime import config as settings
from neverforget.runtime.channel import closed
from neverforget.runtime.config import Config
from neverforget.runtime.longterm_client import LongTermClient
from neverforget.runtime.operation import Context, RequestIds
from neverforget.runtime.reaching import Reach, Wanted, reach
from neverforget.runtime.store_path import typed_errors
from neverforget.runtime.stored_settings import read_stored
from neverforget.storage.clock import Clock
from neverforget.storage.errors import StoreLocked, UnsupportedFormat

if TYPE_CHECKING:
    import asyncio

    from neverforget.runtime.async_channel import AsyncChannel


class _LoopChannel:
    """One event loop's channel and how many leases use it."""

    def __init__(self, channel: AsyncChannel) -> None:
        self.channel = channel
        self.leases = 0


class Engine:
    """A store as this process reaches it."""

    def __init__(self, path: Path, found: Reach, clock: Clock) -> None:
        self.path = path
        self.reach = found
        self.store_id = found.store_id
        self.channel = found.channel
        self.pid = os.getpid()
        self.context = Context(
            found.config.partitions,
            TokenCounter(found.config.tokenizer),
            RequestIds(),
            clock,
            found.config.batch_bytes_max,
            LongTermClient(),
        )
        self.leases = 0
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopChannel] = (
            weakref.WeakKeyDictionary()
        )
        # The collector may drop a handle here, whose end wants the lock in the same thread.
        self._loops_lock = threading.RLock()

    @property
    def inline(self) -> bool:
        """Do the owners live in this process?"""
        return self.reach.kind == "inline"

    @property
    def usable(self) -> bool:
        """False for a parent's engine in a forked child, unless its sockets can start afresh."""
        return self.reach.kind == "attached" or self.pid == os.getpid()

    def config_for(self, asked: Config) -> Config:
        """The effective settings of one handle. InvalidArgument where it asks for other values."""
        stored = {} if self.reach.kind == "deployed" else read_stored(self.path)
        config = self.reach.config
        found = settings.attached(asked, settings.host_settings(config), stored)
        if self.inline:
            own = {n: s for n, s in config.sources.items() if n not in settings.CLIENT}
            return found.with_sources({**found.sources, **own})
        return found

    def acquire_loop(self, loop: asyncio.AbstractEventLoop) -> AsyncChannel:
        """The channel of ``loop``, with one lease more on it."""
        with self._loops_lock:
            shared = self._loops.get(loop)
            if shared is None:
                shared = self._loops[loop] = _LoopChannel(self.reach.async_channel())
            shared.leases += 1
            return shared.channel

    def release_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """One lease less; the last one closes the loop's channel, on that loop's thread."""
        with self._loops_lock:
            shared = self._loops.get(loop)
            if shared is None:
                return
            shared.leases -= 1
            if shared.leases:
                return
            del self._loops[loop]
        if _running() is loop:
            shared.channel.close()
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed: so are its transports
                loop.call_soon_threadsafe(shared.channel.close)

    def close(self) -> None:
        """Disconnect; where the owners live here, drain and seal them."""
        self.channel.close()
        self.reach.release()


def _running() -> asyncio.AbstractEventLoop | None:
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None


class Lease:
    """One handle's hold on an engine. Views and sessions of a handle use the handle's lease; a
    view's own lease ends with it or with its parent's.
    """

    def __init__(self, engine: Engine, parent: Lease | None = None) -> None:
        self.engine = engine
        self.parent = parent
        self.ended = False
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def check(self) -> None:
        """Raise StoreClosed when this handle was closed, or the one it was made from."""
        lease: Lease | None = self
        while lease is not None:
            if lease.ended:
                raise closed()
            lease = lease.parent

    def channel_here(self, loop: asyncio.AbstractEventLoop) -> AsyncChannel:
        """The channel for ``loop``, which is running in this thread."""
        self.check()
        owner = self._owner()
        if loop in owner._loops:
            return self.engine._loops[loop].channel
        owner._loops.add(loop)
        return self.engine.acquire_loop(loop)

    def _owner(self) -> Lease:
        lease = self
        while lease.parent is not None:
            lease = lease.parent
        return lease

    def end(self) -> None:
        """Idempotent. The last handle's ends the engine."""
        if self.ended:
            return
        self.ended = True
        if self.parent is not None:
            return
        for loop in list(self._loops):
            self.engine.release_loop(loop)
        _release(self.engine)

    def __del__(self) -> None:
        # A handle that is dropped without close() lets go all the same. When the interpreter ends
        # everything is given back already, and a thread that was frozen may hold a lock for ever.
        if self.parent is None and not self.ended and self.engine.usable and not is_finalizing():
            self.end()


# ---- the engines of this process -----------------------------------------------------------------


def lease(path: Path, wanted: Wanted) -> tuple[Lease, Config]:
    """A lease on the engine of the real ``path``, opened now if there is none, and the settings of
    the handle that gets it. What the system refuses is Unavailable: see ``store_path``.
    """
    with _opening_of(path), typed_errors(path):
        with _registry:
            known = _known(path, wanted)
        if known is not None:
            return known
        # Not under the registry's lock: it may take as long as ``wait``, other paths go on.
        engine = Engine(path, reach(path, wanted), wanted.clock)
        try:
            config = engine.config_for(wanted.asked)
        except BaseException:
            engine.close()
            raise
        with _registry:
            engine.leases += 1
            _engines[path] = engine
        return Lease(engine), config


def lease_if_open(path: Path, wanted: Wanted) -> tuple[Lease, Config] | None:
    """As ``lease``, where that takes no time: the engine is there already."""
    with _registry, typed_errors(path):
        return _known(path, wanted)


def _known(path: Path, wanted: Wanted) -> tuple[Lease, Config] | None:
    engine = _engines.get(path)
    if engine is None or not engine.usable:
        return None
    if engine.reach.displaced():
        del _engines[path]  # its handles keep it; nobody joins it
        return None
    engine.leases += 1  # at once: else a lease dropped meanwhile could end the engine
    held = Lease(engine)
    try:
        _check_kind(engine, wanted)
        return held, engine.config_for(wanted.asked)
    except BaseException:
        held.end()
        raise


def again(engine: Engine) -> Lease:
    """Another lease on an engine that has at least one."""
    with _registry:
        if not engine.leases:
            raise closed()
        engine.leases += 1
        return Lease(engine)


def _release(engine: Engine) -> None:
    with _registry:
        engine.leases -= 1
        if engine.leases:
            return
        if _engines.get(engine.path) is engine:
            del _engines[engine.path]
    engine.close()


def _check_kind(engine: Engine, wanted: Wanted) -> None:
    if wanted.store_id is not None and wanted.store_id != engine.store_id:
        raise UnsupportedFormat(
            f"{engine.path} is store {engine.store_id} now, not {wanted.store_id}; open it again"
        )
    if wanted.inline and not engine.inline:
        pid = engine.reach.holder_pid()
        raise StoreLocked(
            f"{engine.path} is hosted by process {pid} and attached to from here; open it without "
            "inline=True, or close every handle and end that host first",
            pid=pid,
            role="serve",
        )


@contextlib.contextmanager
def _opening_of(path: Path) -> Iterator[None]:
    """A path is opened by one thread at a time; the others then find the engine."""
    with _registry:
        lock, users = _openings.get(path, (threading.Lock(), 0))
        _openings[path] = (lock, users + 1)
    try:
        with lock:
            yield
    finally:
        with _registry:
            lock, users = _openings[path]
            if users == 1:
                del _openings[path]
            else:
                _openings[path] = (lock, users - 1)


def _forget_in_child() -> None:
    global _registry
    _registry = threading.RLock()
    _openings.clear()
    for path, engine in list(_engines.items()):
        engine._loops_lock = threading.RLock()
        if not engine.usable:
            del _engines[path]


_registry = threading.RLock()
_engines: dict[Path, Engine] = {}
_openings: dict[Path, tuple[threading.Lock, int]] = {}
os.register_at_fork(after_in_child=_forget_in_child)
