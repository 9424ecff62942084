"""A store as it was at some time, made of the objects that its logs had then.

It is another store: its id is new, so that no handle of the first one takes it for that, and what
it ships one day lies elsewhere in the bucket. It has no replica, and reads objects only: whoever
serves the first store goes on. Interrupted, it begins again.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from neverforget.runtime.config import LONGTERM_FOLDER, STORE_TOML, Config
from neverforget.runtime.replica_settings import StoredSettings
from neverforget.runtime.restoring import (
    Progress,
    RestoreReport,
    begin,
    end,
    identity_of,
    open_all,
)
from neverforget.runtime.store_directory import (
    LONGTERM_LOG,
    REGIONS_FOLDER,
    StoreDirectory,
    make_again,
    partition_log,
    prepare,
)
from neverforget.runtime.times import from_us
from neverforget.storage.clock import SystemClock
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import IDENTITY_FILE
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.point_copy import PointCopy
from neverforget.storage.shipped_objects import ShippedObjects, read_objects
from neverforget.storage.shipping_object import Author, log_prefix, store_bytes


def restore_point(
    path: Path, url: str, settings: StoredSettings, at_us: int, progress: Progress | None
) -> RestoreReport:
    """See ``restore``. The folder is locked."""
    fs, source = LocalFileSystem(), settings.store_id
    asked = Config(**settings.settings)
    store = open_object_store(url)
    logs = [*map(partition_log, range(asked.partitions)), LONGTERM_LOG]
    objects = {log: read_objects(store, log_prefix(source, log)) for log in logs}
    counts = {log: found.until(at_us) for log, found in objects.items()}
    if not any(counts.values()):
        first = min((found.made_us[0] for found in objects.values() if found.made_us), default=0)
        raise NotFound(
            f"nothing of store {source} was shipped to {store.name} by {from_us(at_us)}"
            + (f"; the first object is of {from_us(first)}" if first else "")
        )
    newest_us = max(found.made_us[-1] for found in objects.values() if found.made_us)
    if at_us > max(newest_us, SystemClock().now_us()):  # a slip of the hand must not mean "all"
        raise InvalidArgument(
            f"{from_us(at_us)} is in the future; the newest object of store {source} is of "
            f"{from_us(newest_us)}"
        )
    begin(path, f"{source} {at_us}")
    _clear(path)
    new_id = str(uuid.uuid4())
    make_again(fs, path, asked, new_id, lambda log: identity_of(store, log, source, new_id))
    made = prepare(fs, path, asked, create=False, store_id=new_id, restoring=True)
    total = sum(sum(objects[log].sizes[: counts[log]]) for log in logs)
    copy = _Copying(made, store, source, total, progress)
    erasures = sum(copy.one(log, objects[log], counts[log]) for log in logs)
    sessions, turns, memories, _ = open_all(made, None, lambda _: None)
    end(path)
    return RestoreReport(
        new_id, asked.partitions, sessions, turns, memories, sum(counts.values()), total,
        from_us(at_us), erasures,
    )  # fmt: skip


def _clear(path: Path) -> None:
    """Take away what an interrupted one made; RESTORING says that it is that one's."""
    for folder in (REGIONS_FOLDER, LONGTERM_FOLDER):
        shutil.rmtree(path / folder, ignore_errors=True)
    for file in (IDENTITY_FILE, STORE_TOML):
        (path / file).unlink(missing_ok=True)


class _Copying:
    def __init__(
        self,
        made: StoreDirectory,
        store: ObjectStore,
        source: str,
        total: int,
        progress: Progress | None,
    ) -> None:
        self._made = made
        self._store = store
        self._source = source
        self._total = total
        self._progress = progress
        self._done = 0

    def one(self, log: str, objects: ShippedObjects, count: int) -> int:
        if not count:
            return 0
        conversations = log != LONGTERM_LOG
        number = int(log.rpartition("-")[2])
        directory = self._made.region(number) if conversations else self._made.longterm
        author = Author(store_bytes(self._source), objects.headers[0].log_id, 0)
        copy = PointCopy(
            LocalFileSystem(), directory, self._store, log_prefix(self._source, log), author,
            objects, count, conversations=conversations, tell=self._tell,
        )  # fmt: skip
        return copy.carry_out()

    def _tell(self, n_bytes: int) -> None:
        self._done += n_bytes
        if self._progress is not None:
            self._progress(self._done, self._total)
