"""A store inside this process: its owners as plain objects, no Ray, no sockets.

The caller serialises: ``lock`` is held around every ``run``, ``tick`` and ``deadline`` of a
partition, another one around those of the long-term owner. That is made, with its embedder, when it
is first asked: a store that holds conversations only loads nothing that searches.

The directory's LOCK says "application", so nobody will end this process to get at it, and ENDPOINT
says "inline", so that others learn at once that they cannot attach.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.actors.partition import Partition
from neverforget.runtime import embedders
from neverforget.runtime.config import Config, host_settings
from neverforget.runtime.endpoint import Endpoint, remove_endpoint, write_endpoint
from neverforget.runtime.inline_reflection import InlineReflection
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.store_directory import make_directory, prepare
from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import DirectoryLock, boot_id, this_process
from neverforget.storage.errors import StoreLocked
from neverforget.storage.filesystem import FileSystem, LocalFileSystem

if TYPE_CHECKING:
    from neverforget.actors.embedder_checked import CheckedEmbedder
    from neverforget.actors.embedding import LocalEmbedding
    from neverforget.actors.longterm import LongTerm


class InlineHost:
    """One handle on this process's engine of a path. The last ``close`` drains, seals and gives the
    store back; in a forked child it does nothing."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._closed = False

    @property
    def path(self) -> Path:
        return self._engine.store.path

    @property
    def store_id(self) -> str:
        return self._engine.store.store_id

    @property
    def config(self) -> Config:
        return self._engine.store.config

    @property
    def partitions(self) -> list[Partition]:
        return self._engine.partitions

    @property
    def lock(self) -> threading.RLock:
        return self._engine.lock

    def longterm(self) -> tuple[LongTerm, threading.RLock]:
        """The long-term owner, made now if nobody has asked for it yet, and its lock."""
        return self._engine.longterm(), self._engine.longterm_lock

    @property
    def reflection(self) -> InlineReflection:
        return self._engine.reflection

    def lend_embedder(self, embedder: Any) -> str:
        """Let the store embed with this object, too; the name of its setting."""
        return self._engine.lend_embedder(embedder)

    @property
    def owned_here(self) -> bool:
        """False in a forked child: the store is the parent's."""
        return self._engine.pid == os.getpid()

    def close(self) -> None:
        if self._closed or not self.owned_here:
            return
        self._closed = True
        with _registry:
            self._engine.handles -= 1
            if self._engine.handles == 0:
                _forget(self._engine)
                self._engine.close()

    def displaced(self) -> bool:
        """The store's directory was deleted, renamed or replaced: what is here is what is left of
        it, and nobody should join in."""
        with _registry:
            return self._engine.is_displaced()


class _Engine:
    reflection: InlineReflection

    def __init__(
        self, path: Path, asked: Config, store_id: str | None, create: bool, reflects: bool
    ) -> None:
        self.pid = os.getpid()
        self.handles = 0
        self.lock = threading.RLock()
        self.longterm_lock = threading.RLock()
        self.partitions: list[Partition] = []
        self._longterm: LongTerm | None = None
        self._embedding: LocalEmbedding | None = None
        self._lent: dict[str, Any] = {}
        self._seams: tuple[FileSystem | None, Clock | None] = (None, None)
        self._displaced: str | None = None
        self._reflects = reflects
        make_directory(path, create=create)
        self._lock_file = DirectoryLock.acquire(path, role="application")
        try:
            self.store = prepare(LocalFileSystem(), path, asked, create=create, store_id=store_id)
            self._specs = OwnerSpecs(self.store, reflects=reflects)
            self._lent.update(self.store.config.embedder_objects)
            self._publish()
        except BaseException:
            self._lock_file.release()
            raise

    def open(self, fs: FileSystem | None, clock: Clock | None) -> None:
        self._seams = fs, clock
        config = self.store.config
        self.reflection = InlineReflection(
            self._specs.reflector(), config.extractor, clock, automatic=self._reflects
        )
        for number in range(self.store.config.partitions):
            spec = self._specs.partition(number)
            partition = Partition(
                spec,
                fs=fs,
                clock=clock,
                store_displaced=self._find_displaced,
                on_due=self.reflection.due,
            )
            partition.open()
            self.partitions.append(partition)
            # An owner whose host was killed may take a moment to go; a living one does not.
            if isinstance(partition.error, StoreLocked):
                raise partition.error

    def longterm(self) -> LongTerm:
        with self.longterm_lock:
            if self._longterm is None:
                from neverforget.actors.chunker_local import local_chunkers
                from neverforget.actors.embedding import LocalEmbedding
                from neverforget.actors.longterm import LongTerm

                fs, clock = self._seams
                lent = {name: checked(embedder) for name, embedder in self._lent.items()}
                self._embedding = LocalEmbedding(embedders.made, lent)
                self._longterm = LongTerm(
                    self._specs.longterm(),
                    self._embedding,
                    chunkers=local_chunkers(
                        self._specs.chunker(), self.store.config.summarizer_object
                    ),
                    fs=fs,
                    clock=clock,
                    store_displaced=self._find_displaced,
                )
                self._longterm.start()
            return self._longterm

    def lend_embedder(self, embedder: Any) -> str:
        name = embedders.stored_name(embedder)
        with self.longterm_lock:
            self._lent[name] = embedder
            if self._embedding is not None:
                self._embedding.lend(name, checked(embedder))
        return name

    def close(self) -> None:
        self.reflection.close()
        with self.longterm_lock:
            if self._longterm is not None:
                self._longterm.close()
        with self.lock:
            for partition in self.partitions:
                partition.close()
        if self._find_displaced() is None:
            remove_endpoint(self.store.path, this_process())
        self._lock_file.release()

    def is_displaced(self) -> bool:
        """If so, the partitions are quarantined and everything is given back."""
        if self._find_displaced() is None:
            return False
        with self.lock:
            for partition in self.partitions:
                partition.check_place()
        with self.longterm_lock:
            if self._longterm is not None:
                self._longterm.check_place()
        return True

    def _find_displaced(self) -> str | None:
        """What has become of the directory, once and for all. If it was only renamed, whoever finds
        it under its new name may have it from then on."""
        if self._displaced is None:
            self._displaced = self._lock_file.displaced()
            if self._displaced is not None:
                self._lock_file.release()
        return self._displaced

    def _publish(self) -> None:
        write_endpoint(
            self.store.path,
            Endpoint(
                store_id=self.store.store_id,
                kind="inline",
                process=this_process(),
                boot=boot_id(),
                node=os.uname().nodename,
                started_at=time.time_ns() // 1000,
                settings=host_settings(self.store.config),
            ),
        )


def open_inline(
    path: str | os.PathLike[str],
    config: Config | None = None,
    *,
    create: bool = True,
    store_id: str | None = None,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    reflects: bool = True,
) -> InlineHost:
    """Open the store at ``path`` in this process, or get another handle on it.

    Raises StoreLocked when another process has it, or this one hosts it, and what ``prepare``
    raises. ``fs`` and ``clock`` are those of the partitions. ``reflects`` False: no session is
    reflected by itself.
    """
    real = Path(os.path.realpath(path))
    with _registry:
        engine = _engines.get(real)
        if engine is None or engine.is_displaced():
            engine = _Engine(real, config or Config(), store_id, create, reflects)
            try:
                engine.open(fs, clock)
            except BaseException:
                engine.close()
                raise
            _engines[real] = engine
            _all.add(engine)
        engine.handles += 1
        return InlineHost(engine)


def _forget(engine: _Engine) -> None:
    _all.discard(engine)
    if _engines.get(engine.store.path) is engine:
        del _engines[engine.store.path]


def checked(embedder: Any) -> CheckedEmbedder:
    """An object that is lent to a store, held to its contract."""
    made = embedders.made(embedder)
    assert made is not None, "only a name can mean that there is none"
    return made


def _forget_in_child() -> None:
    global _registry
    _registry = threading.RLock()
    _engines.clear()
    _all.clear()


def _close_all() -> None:
    with _registry:
        for engine in list(_all):
            _forget(engine)
            engine.close()


_registry = threading.RLock()
_engines: dict[Path, _Engine] = {}  # that may be joined
_all: set[_Engine] = set()  # also those whose directory was replaced
os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_close_all)
