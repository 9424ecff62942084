"""What becomes of records that a fenced owner had acknowledged and nobody shipped.

They stand in what was set aside, or on a disk that came back, at positions where the log that
counts holds others. Those that came again meanwhile (a client repeated them, or an earlier salvage
got that far) are left alone; the rest is carried out anew, kind by kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from neverforget.storage.errors import UnsupportedFormat
from neverforget.storage.format import Kind


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
    Kind.SALVAGED: Fate.WITH_OTHERS,
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


def fates_of(kinds: Sequence[int]) -> list[Fate]:
    """Of the records of one batch. Raises UnsupportedFormat for a kind that this version does not
    know: it is neither left out in silence nor carried out by guess.
    """
    try:
        known = [Kind(kind) for kind in kinds]
    except ValueError as error:
        raise UnsupportedFormat(
            f"what is to be salvaged holds a kind of record that this neverforget does not know "
            f"({error}): install a newer one"
        ) from error
    if Kind.CHUNKED in known:  # all of it is derived from its original
        return [Fate.DROP] * len(known)
    return [FATES[kind] for kind in known]
