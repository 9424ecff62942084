"""The last two steps of every erasure: zeros over what an ERASING record names, and ERASED.

    1. an ERASING record names each byte range; it is durable
    2. the ranges are zeroed, in the log and in the copies that recovery set aside; sync
    3. an ERASED record; sync

Every step can be repeated: an ERASING record without its ERASED one is carried out again when the
log is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from neverforget.storage.batch import stage_batch
from neverforget.storage.control import ControlField, F, Range
from neverforget.storage.errors import Corrupt, OutOfSpace
from neverforget.storage.format import Kind
from neverforget.storage.log_state import LogState
from neverforget.storage.record import Header, encode_control
from neverforget.storage.set_aside import erase_copies


def zero_ranges(
    state: LogState, ranges: Sequence[Range], doomed_by: Callable[[Header], bool]
) -> None:
    """Step 2. ``doomed_by``: which records of torn and quarantined copies go as well."""
    for position, length in ranges:
        try:
            state.log.overwrite(position, length)
        except Corrupt:
            continue  # its segment is gone, and the bytes with it
    erase_copies(state.fs, state.directory, state.log_seed, doomed_by, ranges)
    state.log.sync()


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
