"""The last two steps of every erasure: zeros over what an ERASING record names, and ERASED.

    1. an ERASING record names each byte range; it is durable
    2. the ranges are zeroed, in the log and in the copies that recovery set aside; sync
    3. an ERASED record; sync

Every step can be repeated: an ERASING record without its ERASED one is carried out again when the
log is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from neverforget.storage.batch import stage_batch
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt, OutOfSpace
from neverforget.storage.format import Kind
from neverforget.storage.log_state import LogState, Ranges
from neverforget.storage.record import Header, encode_control
from neverforget.storage.set_aside import erase_copies
from neverforget.storage.slices import Slices, whole

_OLD_VERSIONS: Final = "versions of objects that the replica's bucket keeps: expire them there"
_OLD_DISKS: Final = "what a failover left on disks that the store was moved away from"
_SLICE: Final = 256  # ranges zeroed between two yields: 2 ms
_UNSYNCED_MAX: Final = 1024 * 1024  # bytes of zeros that one sync writes, as an append waits for it


def zeroing(
    state: LogState,
    ranges: Ranges,
    doomed_by: Callable[[Header], bool],
    doomed_aside: Callable[[Header], bool] | None = None,
) -> Slices[None]:
    """Step 2. ``doomed_by``, ``doomed_aside``: which records of the copies that were set aside go
    as well; see ``erase_copies``. A log that is shipped ships the record first, and zeroes them in
    the objects last; raises Unavailable or OwnerFenced where that cannot be done, and is carried
    out again.
    """
    shipper = state.shipper
    if shipper is not None:
        shipper.confirm()
    unsynced = 0
    for at in range(0, len(ranges), _SLICE):
        for position, length in ranges[at : at + _SLICE]:
            try:
                state.log.overwrite(int(position), int(length))
            except Corrupt:
                continue  # its segment is gone, and the bytes with it
            unsynced += int(length)
            if unsynced > _UNSYNCED_MAX:
                state.log.sync()
                unsynced = 0
        yield
    erase_copies(state.fs, state.directory, state.log_seed, doomed_by, ranges, doomed_aside)
    state.log.sync()
    if shipper is not None:
        shipper.erase(ranges)


zero_ranges = whole(zeroing)


def record_erased(state: LogState, position: int) -> None:
    """Step 3 of the ERASING record at ``position``. Without room for its record the erasure is
    done, and done again at the next opening.
    """
    body = {F[ControlField.ERASING]: position}
    record = encode_control(Kind.ERASED, 0, 0, body, timestamp_us=state.clock.now_us())
    try:
        stage_batch(state.log, record, [(0, 0, 0)])
    except OutOfSpace as error:
        state.report(state.finding("unfinished_erasure", position, 0, error.message))
        return
    state.log.write()
    state.log.sync()
    state.unfinished.pop(position, None)


def unreachable_objects(state: LogState) -> list[str]:
    """What an erasure's report says of the objects of a log that is shipped."""
    return [] if state.shipper is None else [_OLD_VERSIONS, _OLD_DISKS]
