"""Stamping and staging one batch: all of its records reach the log, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neverforget.storage.format import RecordFlag, stride
from neverforget.storage.log import Log
from neverforget.storage.record import Header

_FIRST, _MORE = int(RecordFlag.BATCH_FIRST), int(RecordFlag.BATCH_MORE)

Places = Sequence[tuple[int, int, int]]  # (offset in the batch, session_id, seq) of each record


def stage_batch(log: Log, buffer: bytearray, places: Places, added: int = 0) -> int:
    """Stamp and stage; the position of the batch's first byte. ``added``: see ``Log.reserve``.

    Raises what ``Log.reserve`` raises, with nothing staged.
    """
    position = log.reserve(len(buffer), added)
    stamp = log.stamp
    flags = _FIRST | _MORE
    last = len(places) - 1
    for index, (offset, session_id, seq) in enumerate(places):
        if index == last:
            flags &= ~_MORE
        stamp(buffer, offset, position + offset, session_id=session_id, seq=seq, flags_or=flags)
        flags &= ~_FIRST
    log.stage(buffer)
    return position


def batch_from(log: Log, position: int) -> Iterator[tuple[int, Header]]:
    """(position, header) from the record at ``position`` to the last of its batch."""
    while True:
        header = log.header(position)
        yield position, header
        if not header.flags & _MORE:
            return
        position += stride(header.body_length)


def end_of(position: int, header: Header) -> int:
    return position + stride(header.body_length)
