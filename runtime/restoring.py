"""Making a store again from what was shipped: its directory is lost, another machine takes over, or
it is wanted as it was at some time.

    1. the settings are read from the replica; empty regions are made, with the identities they had
    2. every region is opened as its owner would, told to take over: fence, fetch, apply
    3. the mark RESTORING goes; until then the same call goes on where it was interrupted

Whoever served the store before is fenced by step 2: it acknowledges nothing any more. A store as of
a time is another one, with an id of its own and no replica: nobody is fenced (``restoring_point``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from neverforget.runtime.config import Config
from neverforget.runtime.replica_settings import StoredSettings, read_settings
from neverforget.runtime.store_directory import (
    LONGTERM_LOG,
    RESTORING,
    SHIPPED_FILE,
    StoreDirectory,
    has_records,
    make_again,
    make_directory,
    partition_log,
    prepare,
    refuse_foreign,
)
from neverforget.runtime.store_path import real_path
from neverforget.runtime.times import Moment, to_us
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.backup import LOG_DIRECTORY
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import Identity, read_identity, write_identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.region import Region
from neverforget.storage.replica import Replica
from neverforget.storage.replica_identity import identity_in, new_identity
from neverforget.storage.segment import SegmentHeader, create_segment, segment_path
from neverforget.storage.shipping_object import log_prefix

Progress = Callable[[int, int], None]


class RestoreReport(Struct, frozen=True):
    """What came back. ``objects``, ``bytes``: of all logs, fences included. ``at``: the time as of
    which, where one was asked for; then ``store_id`` is that of a new store, and ``erasures`` says
    how many later ones reach into it: what they erased is not in it.
    """

    store_id: str
    partitions: int
    sessions: int
    turns: int
    memories: int
    objects: int
    bytes: int
    at: datetime | None = None
    erasures: int = 0


def restore(
    path: str | os.PathLike[str],
    from_: str,
    *,
    store_id: str | None = None,
    at: Moment | None = None,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make the store that is shipped to ``from_`` (as ``replica=``, or a folder's path) again at
    ``path``, which must be new or empty, or hold what an interrupted ``restore`` left. Durable when
    it returns.

    Whoever served the store before is fenced: it acknowledges nothing any more. With ``at``, an
    aware time, a **new** store is made of what was durable then, as far as it was shipped: with an
    id of its own, without a replica, and nobody is fenced. What was erased since is not in it; the
    erasure stands on its record. See ``restore_points``.

    ``store_id``: which one, where several are there. progress: called with (bytes read, all).
    Raises NotFound, InvalidArgument (also for a time to come), UnsupportedFormat, Unavailable,
    Corrupt, OutOfSpace, StoreLocked.
    """
    target = real_path(path)
    at_us = None if at is None else to_us(at, "at")
    settings = read_settings(from_, store_id)
    make_directory(target, create=True)
    lock = DirectoryLock.acquire(target, role="application")
    try:
        if at_us is None:
            return _restore(target, _as_url(from_), settings, progress)
        from neverforget.runtime.restoring_point import restore_point

        return restore_point(target, from_, settings, at_us, progress)
    finally:
        lock.release()


def _restore(
    path: Path, url: str, settings: StoredSettings, progress: Progress | None
) -> RestoreReport:
    fs = LocalFileSystem()
    asked = Config(replica=url, **settings.settings)
    begin(path, settings.store_id)
    objects = open_object_store(url)
    found = settings.store_id
    make_again(fs, path, asked, found, lambda log: identity_of(objects, log, found, found))
    store = prepare(fs, path, asked, create=False, store_id=found, restoring=True)
    report = _take_over(store, url, objects, Sizes(objects, found, asked.partitions, progress))
    end(path)
    return report


def _as_url(place: str) -> str:
    """As the store's setting has it."""
    return place if "://" in place else f"file://{Path(place).expanduser().absolute()}"


def begin(path: Path, what: str) -> None:
    """Say that ``what`` is being restored at ``path``. InvalidArgument: something else is."""
    fs, mark = LocalFileSystem(), path / RESTORING
    if not fs.exists(mark):
        refuse_foreign(fs, path)
        write_atomic(fs, mark, what.encode() + b"\n")
    elif mark.read_text().strip() != what:
        raise InvalidArgument(f"{path} is being restored as another store; use an empty folder")


def end(path: Path) -> None:
    """It is a store from now on."""
    fs = LocalFileSystem()
    fs.unlink(path / RESTORING)
    fs.sync_directory(path)


def identity_of(objects: ObjectStore, log: str, store_id: str, new_id: str) -> Identity:
    """The one that the log of this name had in ``store_id``, for ``new_id``; with a new log where
    nothing of it was ever shipped.
    """
    found = identity_in(objects, log, store_id) or new_identity(log, store_id)
    return Identity(new_id, found.what, found.partition, found.log_id)


class Sizes:
    """How much there is to read, by the listing of the objects, and how much was."""

    def __init__(
        self, store: ObjectStore, store_id: str, partitions: int, progress: Progress | None
    ) -> None:
        self._progress = progress
        self._of: dict[str, int] = {}
        self.objects = 0
        for log in (*map(partition_log, range(partitions)), LONGTERM_LOG):
            sizes = [size for _, size in store.list(log_prefix(store_id, log))]
            self._of[log] = sum(sizes)
            self.objects += len(sizes)
        self.bytes = sum(self._of.values())
        self._done = 0

    def read(self, n_bytes: int) -> None:
        self._done = min(self._done + n_bytes, self.bytes)
        if self._progress is not None:
            self._progress(self._done, self.bytes)

    def has(self, *logs: str) -> None:
        """These are done, whatever of them had to be read."""
        self._done = max(self._done, sum(self._of[log] for log in logs))
        self.read(0)


def _take_over(
    store: StoreDirectory, url: str, objects: ObjectStore, sizes: Sizes
) -> RestoreReport:
    store_id, partitions = store.store_id, store.config.partitions
    for number in range(partitions):
        _take_identity(store.region(number), objects, partition_log(number), store_id)
    _take_identity(store.longterm, objects, LONGTERM_LOG, store_id)
    logs = [*map(partition_log, range(partitions)), LONGTERM_LOG]
    replicas = [Replica(url, store_id, log, takes_over=True, tell=sizes.read) for log in logs]

    def done(count: int) -> None:
        sizes.has(*logs[:count])

    sessions, turns, memories, count = open_all(store, replicas, done)
    return RestoreReport(store_id, partitions, sessions, turns, memories, count, sizes.bytes)


def _take_identity(directory: Path, objects: ObjectStore, log: str, store_id: str) -> None:
    """Another restore, or an owner, may have put the first object of a log of which there was none
    when this region was made: then it is that log, as long as nothing stands in this one.
    """
    fs = LocalFileSystem()
    found = identity_in(objects, log, store_id)
    if found is None or read_identity(fs, directory).log_id == found.log_id:
        return
    if has_records(directory):
        raise Corrupt(
            f"{directory} holds another log than {log} in {objects.name}; use an empty folder"
        )
    (directory / SHIPPED_FILE).unlink(missing_ok=True)
    folder, first = directory / LOG_DIRECTORY, segment_path(directory / LOG_DIRECTORY, 0)
    for name in fs.list_directory(folder):
        if name != first.name:
            fs.unlink(folder / name)
    # An empty log, whichever of the two it is, and whatever dies here.
    header = SegmentHeader(found.log_id, 0, first.stat().st_size, 0)
    create_segment(fs, folder, header, "pread", replace_spare=True).close()
    write_identity(fs, directory, found)


def open_all(
    store: StoreDirectory, replicas: list[Replica] | None, done: Callable[[int], None]
) -> tuple[int, int, int, int]:
    """Open each region, of the partitions and then of the memories, once, with its replica if it
    has one, and close it in order: (sessions, turns, memories, objects). ``done``: called with how
    many are.
    """
    fs, store_id, partitions = LocalFileSystem(), store.store_id, store.config.partitions
    sessions = turns = objects = 0
    for number in range(partitions):
        region = Region.open(
            fs, store.region(number), store_id=store_id, partition=number,
            replica=None if replicas is None else replicas[number],
        )  # fmt: skip
        try:
            status = region.status()
            sessions, turns = sessions + status.sessions, turns + status.turns
            objects += 0 if status.replica is None else status.replica.objects
            region.seal()
        finally:
            region.close()
        done(number + 1)
    longterm = LongTermRegion.open(
        fs, store.longterm, store_id=store_id, replica=None if replicas is None else replicas[-1]
    )
    try:
        learned = longterm.status()
        objects += 0 if learned.replica is None else learned.replica.objects
        longterm.seal()
    finally:
        longterm.close()
    done(partitions + 1)
    return sessions, turns, learned.memories, objects
