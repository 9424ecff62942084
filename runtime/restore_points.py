"""Which moments a store can be restored at: what its replica holds, by time."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from neverforget.runtime.arguments import whole
from neverforget.runtime.config import Config
from neverforget.runtime.replica_settings import read_settings
from neverforget.runtime.store_directory import LONGTERM_LOG, partition_log
from neverforget.runtime.times import from_us
from neverforget.storage.object_store import open_object_store
from neverforget.storage.shipped_objects import ShippedObjects, read_objects
from neverforget.storage.shipping_object import log_prefix

POINTS_MAX = 100_000


class LogPoints(Struct, frozen=True):
    """One log of a replica: "partition-0", …, "longterm-0". ``turns``: those in its objects, of
    memories none. ``first_at``, ``last_at``: when its first and last object were made; None: it
    has none.
    """

    log: str
    objects: int
    turns: int
    bytes: int
    first_at: datetime | None
    last_at: datetime | None


class RestorePoint(Struct, frozen=True):
    """``restore(..., at=at)`` brings back so many turns, of so many objects with so many bytes in
    all logs together.
    """

    at: datetime
    turns: int
    objects: int
    bytes: int


class RestorePoints(Struct, frozen=True):
    """``points``: in order of time, one for each moment at which objects were made; the newest
    ones. Between two of them a restore brings what the earlier one does.
    """

    store_id: str
    logs: tuple[LogPoints, ...]
    points: tuple[RestorePoint, ...]


def restore_points(url: str, store_id: str | None = None, *, limit: int = 1000) -> RestorePoints:
    """What ``restore(at=)`` can bring back from the replica at ``url``: per log, and all together
    by time, at most the newest ``limit`` points. Reads the header of every object.

    ``store_id``: of which store, where several are there. Raises NotFound, InvalidArgument,
    Unavailable, Corrupt.
    """
    kept = whole(limit, "limit", 1, POINTS_MAX)
    settings = read_settings(url, store_id)
    store, found = open_object_store(url), settings.store_id
    partitions = Config(**settings.settings).partitions
    logs = [*map(partition_log, range(partitions)), LONGTERM_LOG]
    objects = {log: read_objects(store, log_prefix(found, log)) for log in logs}
    return RestorePoints(
        found,
        tuple(_log(log, held) for log, held in objects.items()),
        tuple(_points(list(objects.values())))[-kept:],
    )


def _log(log: str, held: ShippedObjects) -> LogPoints:
    times = held.made_us
    return LogPoints(
        log,
        len(held.headers),
        sum(header.turns for header in held.headers),
        sum(held.sizes),
        from_us(times[0]) if times else None,
        from_us(times[-1]) if times else None,
    )


def _points(logs: list[ShippedObjects]) -> list[RestorePoint]:
    made = sorted(
        (at, header.turns, size)
        for held in logs
        for at, header, size in zip(held.made_us, held.headers, held.sizes, strict=True)
    )
    found: list[RestorePoint] = []
    turns = n_bytes = 0
    for count, (at, more, size) in enumerate(made, 1):
        turns, n_bytes = turns + more, n_bytes + size
        if count == len(made) or made[count][0] != at:
            found.append(RestorePoint(from_us(at), turns, count, n_bytes))
    return found
