"""Which version of a memory an old record was about, and whether that is still the current one.

A version is known by where its record stands: in front of where the logs part it is the same in
both, behind it stands where it was brought, or where its client made it again.
"""

from __future__ import annotations

from neverforget.storage.longterm_fields import Id
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.salvaging import CannotBeSalvaged


class OldVersions:
    """Of one reading."""

    def __init__(self, state: LongTermState) -> None:
        self._state = state
        self.begin(0)

    def begin(self, parting: int) -> None:
        self._parting = parting
        self._moved: dict[int, int] = {}
        self._here: set[int] = set()
        self.gone: set[Id] = set()  # erased there, so that they do not come

    def note(self, old: int, here: int) -> None:
        """What stood at ``old`` stands ``here``."""
        self._moved[old] = here
        self._here.add(here)

    def place(self, old: int) -> int | None:
        """Where what stood at a position stands; None: nowhere."""
        return old if old < self._parting else self._moved.get(old)

    def row(self, wanted: Id, batch: set[Id]) -> int | None:
        """Of a memory that can be changed; None: it is remembered in this ``batch``. Raises
        CannotBeSalvaged.
        """
        row = self._state.table.find(wanted)
        if row is None and wanted in batch:
            return None
        if row is None or self._state.table.get(row, "status") >= Status.FORGOTTEN:
            raise CannotBeSalvaged("the memory is not there, or was deleted since")
        return row

    def is_same(self, row: int) -> bool:
        """Has nobody revised it since the logs parted, but who is brought back?"""
        position = self._state.table.get(row, "position")
        return position < self._parting or position in self._here

    def require_same(self, row: int) -> None:
        if not self.is_same(row):
            raise CannotBeSalvaged("the memory was revised since")

    def require(self, row: int, old: int) -> None:
        """The current version is the one whose record stood at ``old``."""
        if self._state.table.get(row, "position") != self.place(old):
            raise CannotBeSalvaged("the memory was revised since")
