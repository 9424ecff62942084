"""One working memory as its records tell it: what is in it, what it may hold, who its members are.

Pure: a change comes in, nothing else counts. So what is rebuilt from the log is what was there.
"""

from __future__ import annotations

from collections.abc import Iterable

from neverforget.storage.working_bodies import ADDING, Change, Item, Standing
from neverforget.storage.working_results import WorkingPlace

_ACCESSES_MAX = 2**32 - 1
_UNRATED_MAX = 64  # beyond as many as there are
Worth = tuple[float, int, int, bytes]  # importance, created_at, order, id


class WorkingMemory:
    """``items``: by id, in the order they were added. ``behind``: bytes of records since its state
    was last written as a whole. ``worth``: a heap, whose first may go first, of all that are not
    pinned but the ``unrated``; also of some that are not there any more. None: nobody has asked
    yet. See ``working_room``.
    """

    def __init__(self, place: WorkingPlace, standing: Standing | None = None) -> None:
        self.place = place
        self.standing = standing or Standing(0, {}, {})
        self.tokens = sum(item.tokens for item in self.standing.items.values())
        self.pinned = {wanted for wanted, item in self.standing.items.items() if item.pinned}
        self.behind = 0
        self.worth: list[Worth] | None = None
        self.unrated: list[bytes] = []

    @property
    def items(self) -> dict[bytes, Item]:
        return self.standing.items

    @property
    def members(self) -> dict[str, int]:
        return self.standing.members

    @property
    def budget(self) -> int:
        return self.standing.budget

    def apply(self, change: Change, position: int, at: int) -> None:
        """``position``: of its record; ``at``: microseconds UTC."""
        if change.operation in ADDING:
            self._take(change, position, at)
        elif change.operation == "revise":
            for wanted, tokens in zip(change.taken, change.tokens):
                self._count(wanted, tokens)
        elif change.operation in ("pin", "unpin"):
            for wanted in change.taken:
                if wanted in self.items:
                    self._pin(wanted, change.operation == "pin")
        elif change.operation == "join" and change.member is not None:
            self.members.setdefault(change.member, at)
        elif change.operation == "leave" and change.member is not None:
            self.members.pop(change.member, None)
        self.drop(change.left)
        self.drop(change.evicted)
        if change.budget is not None:
            self.standing.budget = change.budget

    def drop(self, ids: Iterable[bytes]) -> None:
        for wanted in ids:
            item = self.items.pop(wanted, None)
            if item is not None:
                self.tokens -= item.tokens
                self.pinned.discard(wanted)

    def rate_anew(self) -> None:
        """Whoever asks next is told what everything in it is worth then."""
        self.worth, self.unrated = None, []

    def _rate_later(self, wanted: bytes) -> None:
        self.unrated.append(wanted)
        if self.worth is None or len(self.unrated) > _UNRATED_MAX + len(self.items):
            self.rate_anew()

    def _take(self, change: Change, position: int, at: int) -> None:
        recalled = change.operation == "recall"
        for number, (wanted, tokens) in enumerate(zip(change.taken, change.tokens)):
            if wanted not in self.items:
                # A record is longer than it has ids: no two are alike.
                self.items[wanted] = Item(0, False, at, at, 0, position + number)
                self._rate_later(wanted)
            self._count(wanted, tokens)
            item = self.items[wanted]
            item.used_at = at
            if change.pinned:
                self._pin(wanted, True)
            item.accesses = min(item.accesses + recalled, _ACCESSES_MAX)

    def _pin(self, wanted: bytes, pinned: bool) -> None:
        self.items[wanted].pinned = pinned
        if pinned:
            self.pinned.add(wanted)
        else:
            self.pinned.discard(wanted)
            self._rate_later(wanted)

    def _count(self, wanted: bytes, tokens: int) -> None:
        item = self.items.get(wanted)
        if item is not None:
            self.tokens += tokens - item.tokens
            item.tokens = tokens
