"""What becomes of records that a fenced owner had acknowledged and nobody shipped.

They stand in what was set aside, at positions where the log that counts holds others. Those that
came again meanwhile (a client repeated them, or an earlier salvage got that far) are left alone;
the rest is carried out anew, kind by kind. Pure: headers in, decisions out. A record is found again
by what no owner changes in it; where two are alike in all of that, one is taken for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.format import Kind, RecordFlag

Array = NDArray[Any]


class Fate(Enum):
    """APPEND: again, with a new seq and ``salvaged_from`` (epoch, seq). TRANSLATE: again, with the
    new seqs of the turns it names, and only what of them is there. ERASE: again, on the same
    positions in front of where the logs part; what was erased behind is zero in what was set aside.
    IF_CURRENT: only where the version that it was made for is still the current one, else it is
    listed as a conflict. WITH_OTHERS: comes by itself with the record it belongs to. DROP: whoever
    made it makes it again, or it says nothing any more.
    """

    APPEND = "append"
    TRANSLATE = "translate"
    ERASE = "erase"
    IF_CURRENT = "if current"
    WITH_OTHERS = "with others"
    DROP = "drop"


FATES: dict[Kind, Fate] = {
    Kind.TURN: Fate.APPEND,
    Kind.REFUSED: Fate.APPEND,
    Kind.REMEMBERED: Fate.APPEND,
    Kind.HIDDEN: Fate.TRANSLATE,
    Kind.UNHIDDEN: Fate.TRANSLATE,
    Kind.FORK: Fate.TRANSLATE,
    Kind.ERASING: Fate.ERASE,
    Kind.SESSION_OPENED: Fate.WITH_OTHERS,
    Kind.AGENT_JOINED: Fate.WITH_OTHERS,
    Kind.ASKED: Fate.WITH_OTHERS,
    Kind.MARK: Fate.DROP,  # reflection repeats what it marked
    Kind.PLANNED: Fate.DROP,
    Kind.NOT_REFLECTED: Fate.DROP,
    Kind.CHUNKED: Fate.DROP,  # chunking repeats, and makes the same ids
    Kind.ERASED: Fate.DROP,
    Kind.NOOP: Fate.DROP,
    Kind.WORKING_STATE: Fate.DROP,  # sums up the changes, which are carried out again
    Kind.RECALLED: Fate.DROP,  # counts, of which the current ones stand
    Kind.REVISED: Fate.IF_CURRENT,
    Kind.TAGGED: Fate.IF_CURRENT,
    Kind.UNTAGGED: Fate.IF_CURRENT,
    Kind.RELATED: Fate.IF_CURRENT,
    Kind.UNRELATED: Fate.IF_CURRENT,
    Kind.FORGOTTEN: Fate.IF_CURRENT,
    Kind.UNDONE: Fate.IF_CURRENT,
    Kind.ARCHIVED: Fate.IF_CURRENT,
    Kind.UNARCHIVED: Fate.IF_CURRENT,
    Kind.PURGED: Fate.IF_CURRENT,
    Kind.WORKED: Fate.IF_CURRENT,
}


_TRANSLATED = [int(kind) for kind, fate in FATES.items() if fate is Fate.TRANSLATE]


class Salvage(NamedTuple):
    """``row``: of the headers that were set aside."""

    row: int
    fate: Fate


class Plan(NamedTuple):
    """``again``: what is to be carried out, in log order. ``came_again``: how many records stand in
    the log that counts already. ``dropped``: how many are of no use.
    """

    again: list[Salvage]
    came_again: int
    dropped: int


def plan_salvage(aside: Array, later: Iterable[Array]) -> Plan:
    """``aside``: headers (``HEAD_DTYPE``) of the sound records that were set aside, in log order.
    ``later``: headers of the log that counts, from where the two part, in pieces.
    """
    wanted = Counter(_identity(head) for head in aside)
    present: Counter[tuple[int, ...]] = Counter()
    crcs = np.unique(aside["body_crc"])
    for piece in later:
        alike = np.isin(piece["body_crc"], crcs) | np.isin(piece["kind"], _TRANSLATED)
        for head in piece[alike]:
            identity = _identity(head)
            if identity in wanted:
                present[identity] += 1
    plan = Plan([], 0, 0)
    came_again = dropped = 0
    for first, last in _batches(aside):
        repeats = aside["kind"][last] == Kind.CHUNKED
        for row in range(first, last + 1):
            identity = _identity(aside[row])
            fate = Fate.DROP if repeats else _fate_of(int(aside["kind"][row]))
            if fate is Fate.DROP:
                dropped += 1
            elif present[identity]:
                present[identity] -= 1
                came_again += 1
            else:
                plan.again.append(Salvage(row, fate))
    return plan._replace(came_again=came_again, dropped=dropped)


def _fate_of(kind: int) -> Fate:
    try:
        return FATES[Kind(kind)]
    except ValueError:
        return Fate.APPEND  # of a newer version: whoever carries it out must know it, or refuse


def _batches(heads: Array) -> Iterable[tuple[int, int]]:
    """(first row, last row) of each batch; the last one ends with the headers."""
    more = (heads["flags"] & RecordFlag.BATCH_MORE) != 0
    first = 0
    for last in range(len(heads)):
        if not more[last] or last + 1 == len(heads):
            yield first, last
            first = last + 1


def _identity(head: Any) -> tuple[int, ...]:
    """What stays the same when a request is carried out again by another owner. Where it has a
    request id or a key, the session's id does not count: it may have taken another one.
    """
    kind, producer = int(head["kind"]), int(head["producer_id"])
    told_by_request = bool(producer) and kind in _TRANSLATED  # its body says other seqs then
    return (
        kind,
        int(head["role"]),
        producer,
        int(head["producer_seq"]),
        0 if producer else int(head["session_id"]),
        int(head["timestamp"]) if _is_the_clients(head) else 0,
        0 if told_by_request else int(head["body_crc"]),
        0 if told_by_request else int(head["body_length"]),
    )


def _is_the_clients(head: Any) -> bool:
    """A turn's timestamp is its client's; that of any other record is its owner's, unless nothing
    else tells it from its like.
    """
    return int(head["kind"]) == Kind.TURN or not int(head["producer_id"])
