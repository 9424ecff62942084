"""Where an old log and the objects part: up to there both hold the same records.

Only read, on a log that nobody has open. Headers tell: the same header is the same record, whatever
an erasure has made of its body.
"""

from __future__ import annotations

from pathlib import Path

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER_BYTES
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.old_logs import parts_of_log
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_mark import Mark
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    ObjectHeader,
    ObjectKind,
    decode_header,
    decode_object,
    object_key,
    records_of,
)


def parting(
    fs: FileSystem, directory: Path, objects: ObjectStore, prefix: str, log_id: int, mark: Mark
) -> int:
    """``directory``: of the region. ``mark``: below its position they do not differ.

    Raises Unavailable; Corrupt where the objects are another log's, or damaged.
    """
    parts = parts_of_log(fs, directory / "log", 0)
    local = LocalCopy(fs, directory, log_id=log_id, tail=parts[-1].stop if parts else 0, epoch=0)
    position, number = _known(local, objects, prefix, log_id, mark)
    while True:
        number += 1
        start = objects.get_start(object_key(prefix, number), OBJECT_HEADER_BYTES)
        if start is None:
            return position
        header = _header(start, objects, log_id, number)
        if header.kind == ObjectKind.FENCE or header.stop <= position:
            continue
        if not local.holds(header, position):
            same = _same_until(local, objects, prefix, header, position)
            if same < header.stop:
                return same
        position = header.stop


def _known(
    local: LocalCopy, objects: ObjectStore, prefix: str, log_id: int, mark: Mark
) -> tuple[int, int]:
    """The mark's position and number, or (0, 0) where the last run in front of it is not here: it
    was copied from elsewhere, or stands beside the log of another time.
    """
    back, number = 0, mark.number
    while number > 0:
        start = objects.get_start(object_key(prefix, number), OBJECT_HEADER_BYTES)
        if start is None:
            break
        header = _header(start, objects, log_id, number)
        if header.kind != ObjectKind.FENCE and header.stop <= mark.position:
            same = _same_until(local, objects, prefix, header, header.start)
            return (mark.position, mark.number) if same == header.stop else (0, 0)
        back = 2 * back or 1  # there are few fences in a row
        number = mark.number - back
    return 0, 0


def _header(start: bytes, objects: ObjectStore, log_id: int, number: int) -> ObjectHeader:
    header = decode_header(start)
    if header.log_id != log_id or header.number != number:
        raise Corrupt(
            f"object {number} in {objects.name} is of log {header.log_id:016x}, not of "
            f"{log_id:016x}, which is to be compared with it"
        )
    return header


def _same_until(
    local: LocalCopy, objects: ObjectStore, prefix: str, header: ObjectHeader, position: int
) -> int:
    """The first record of the object that the log has not; the object's stop: it has them all."""
    if local.has_between(position, header.start) or local.size_of(header.base) != header.size:
        return position
    stored = objects.get(object_key(prefix, header.number))
    if stored is None:
        raise Corrupt(f"object {header.number} in {objects.name} is gone")
    _, payload = decode_object(stored.data)
    raw = local.read(header.base, header.start, header.stop)
    for first, _ in records_of(payload):
        if raw[first : first + HEADER_BYTES] != payload[first : first + HEADER_BYTES]:
            return header.start + first
    return header.stop
