"""Making a store again from what was shipped: its directory is lost, or another machine takes over.

    1. the settings are read from the replica; empty regions are made, with the identities they had
    2. every region is opened as its owner would, told to take over: fence, fetch, apply
    3. the mark RESTORING goes; until then the same call goes on where it was interrupted

Whoever served the store before is fenced by step 2: it acknowledges nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from neverforget.runtime.config import Config
from neverforget.runtime.replica_settings import read_settings
from neverforget.runtime.store_directory import (
    RESTORING,
    StoreDirectory,
    make_again,
    make_directory,
    prepare,
    refuse_foreign,
)
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import Identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.region import Region
from neverforget.storage.replica import Replica
from neverforget.storage.replica_identity import identity_in, new_identity

Progress = Callable[[int, int], None]


class RestoreReport(Struct, frozen=True):
    """What came back. ``objects``: of all logs, fences included."""

    store_id: str
    partitions: int
    sessions: int
    turns: int
    memories: int
    objects: int


def restore(
    path: Path, url: str, *, store_id: str | None = None, progress: Progress | None = None
) -> RestoreReport:
    """Make the store that is shipped to ``url`` again at ``path``, which must be new or empty, or
    hold what an interrupted ``restore`` left. Durable when it returns.

    ``store_id``: which one, where several are there. Raises NotFound, InvalidArgument,
    UnsupportedFormat, Unavailable, Corrupt, OutOfSpace, StoreLocked.
    """
    settings = read_settings(url, store_id)
    asked = Config(replica=url, **settings.settings)
    fs = LocalFileSystem()
    make_directory(path, create=True)
    lock = DirectoryLock.acquire(path, role="application")
    try:
        if not fs.exists(path / RESTORING):
            refuse_foreign(fs, path)
            write_atomic(fs, path / RESTORING, settings.store_id.encode() + b"\n")
        elif (path / RESTORING).read_text().strip() != settings.store_id:
            raise InvalidArgument(f"{path} is being restored as another store; use an empty folder")
        objects = open_object_store(url)
        found = settings.store_id
        make_again(fs, path, asked, found, lambda log: identity_of(objects, log, found))
        store = prepare(fs, path, asked, create=False, store_id=found, restoring=True)
        report = _take_over(store, url, progress)
        fs.unlink(path / RESTORING)
        fs.sync_directory(path)
    finally:
        lock.release()
    return report


def identity_of(objects: ObjectStore, log: str, store_id: str) -> Identity:
    """The one that the log of this name had; a new one where nothing of it was ever shipped."""
    return identity_in(objects, log, store_id) or new_identity(log, store_id)


def _take_over(store: StoreDirectory, url: str, progress: Progress | None) -> RestoreReport:
    fs, store_id, partitions = LocalFileSystem(), store.store_id, store.config.partitions
    sessions = turns = objects = 0

    def replica(log: str) -> Replica:
        return Replica(url, store_id, log, takes_over=True)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, partitions + 1)

    for number in range(partitions):
        region = Region.open(
            fs, store.region(number), store_id=store_id, partition=number,
            replica=replica(f"partition-{number}"),
        )  # fmt: skip
        try:
            status = region.status()
            sessions, turns = sessions + status.sessions, turns + status.turns
            objects += 0 if status.replica is None else status.replica.objects
            region.seal()
        finally:
            region.close()
        tell(number + 1)
    longterm = LongTermRegion.open(
        fs, store.longterm, store_id=store_id, replica=replica("longterm-0")
    )
    try:
        learned = longterm.status()
        objects += 0 if learned.replica is None else learned.replica.objects
        longterm.seal()
    finally:
        longterm.close()
    tell(partitions + 1)
    return RestoreReport(store_id, partitions, sessions, turns, learned.memories, objects)
