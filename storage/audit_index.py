"""Where the audited records stand: what hid, forgot, erased, or was refused. 8 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from neverforget.storage.control import Body, ControlField
from neverforget.storage.format import Kind

AUDITED = {
    int(Kind.HIDDEN): "hide",
    int(Kind.UNHIDDEN): "unhide",
    int(Kind.FORK): "fork",
    int(Kind.ERASING): "erase",
    int(Kind.REFUSED): "forget-refused",
    int(Kind.FORGOTTEN): "forget",
    int(Kind.UNDONE): "undo-forget",
    int(Kind.ARCHIVED): "archive",
    int(Kind.UNARCHIVED): "unarchive",
    int(Kind.PURGED): "purge",
    int(Kind.SALVAGED): "salvage",
}
# On the record as well, but no deletions, and many. Chunkings are seen by who asks for them.
OPERATIONS = {**AUDITED, int(Kind.CHUNKED): "chunk", int(Kind.WORKED): "evict"}


MAYBE_AUDITED = (Kind.ERASING, Kind.SALVAGED)  # their bodies tell


def is_audited(kind: int, body: Body, *, part: ControlField) -> bool:
    """An ERASING record with a ``part`` has its entry elsewhere. A SALVAGED one that only brings
    records back has none.
    """
    if kind == Kind.ERASING:
        return int(part) not in body
    if kind == Kind.SALVAGED:
        return int(ControlField.OPERATION) in body
    return kind in AUDITED


class AuditIndex:
    """Positions in log order."""

    def __init__(self) -> None:
        self._positions = array("Q")

    def __len__(self) -> int:
        return len(self._positions)

    def note(self, position: int) -> None:
        if self._positions and position < self._positions[-1]:
            insort(self._positions, position)
        else:
            self._positions.append(position)

    def after(self, position: int | None) -> Iterator[int]:
        """Ascending, strictly after ``position``."""
        start = 0 if position is None else bisect_right(self._positions, position)
        yield from self._positions[start:]

    def first_after(self, position: int) -> int | None:
        at = bisect_right(self._positions, position)
        return self._positions[at] if at < len(self._positions) else None

    def __contains__(self, position: int) -> bool:
        at = bisect_left(self._positions, position)
        return at < len(self._positions) and self._positions[at] == position
