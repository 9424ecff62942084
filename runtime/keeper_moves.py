"""How parts of a deployed store are moved to other disks, and what an old disk that returns still
contributes. Part of the keeper.

    1. the last object of the log is read: its term; nothing shipped: refused, nothing is changed
    2. the next description, in which the part is on another disk in a higher term, is made durable
       on that disk; from here on it counts, also for the next keeper, which finds it there
    3. every other disk that is there is given it; a host whose parts were moved away ends their
       owners in order, so that everything they acknowledged is shipped
    4. the host of the new disk starts the owner, which makes the region if it is not there, puts
       its fence, fetches what the objects hold, notes the term in SHIPPED, and serves
    5. the old disk is back, or was never away: what it acknowledged and had not shipped is sent to
       the owner; then its region is renamed, and never read again

Nobody acts on a description that does not stand on the own disk. What dies in between:

* the keeper, after 1: nothing has happened. After 2: the next one finds the description on the disk
  and goes on with 3. Whoever asked for it tells it again, with the term that there was before.
* the old owner, host or node, before or in 3: what was not shipped waits on its disk for 5. One
  that lives on, unreachable, may acknowledge "disk" until the lag is at its bound; "replica" never
  after the fence of 4, since the number of its next object is taken.
* the new owner, host or node, before its fence: the old log goes on as it was, and the next start
  puts the fence. After it: the next start finds its own fence, in its own term. It serves nothing,
  not even reads, before SHIPPED says that it has caught up in this term.
* the new disk, for good: it is away, and the part is moved again, in a higher term. Whoever was
  told in a lower one and wakes up late finds the higher term in the objects, and stops.
* the disk in 2, with everybody who knew of the description: the old one counts again, and the owner
  there serves if no fence was put; else it says that a failover is needed.
* two keepers that did not know of each other: their descriptions may be of one version. Of two
  owners that were told in one term the one that is first to put its fence serves.
* whoever sends in 5: it is sent again from the beginning; what is there already is not doubled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from neverforget.runtime import deployed_cluster as cluster
from neverforget.runtime.deployed_replica import bring_back, terms_in
from neverforget.runtime.deployment import Description
from neverforget.runtime.keeper_disks import Disks, Found
from neverforget.runtime.moving import check_movable, moved, named, targets
from neverforget.storage.errors import NeverforgetError, Unavailable
from neverforget.storage.results import Finding

log = logging.getLogger(__name__)
_PAUSE_S_MIN, _PAUSE_S_MAX = 2.0, 60.0
_SAY_AGAIN_S = 60.0
_NOT_YET = "not_salvaged"


class Moves:
    """``move`` and ``go_on`` are called by one thread at a time. ``findings``: for the status."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks
        self._returns: dict[tuple[str, int], _Return] = {}
        self._said_at = float("-inf")

    @property
    def findings(self) -> list[Finding]:
        """What became of old disks that were there again."""
        return [each.finding for each in list(self._returns.values()) if each.finding is not None]

    def move(self, to: Mapping[int, str]) -> None:
        """Have these parts, by their numbers, served from these disks, which must be there. It
        counts when this returns; ``look`` carries it out. Raises Unavailable, InvalidArgument.
        """
        disks, before = self._disks, self._disks.description
        assert before is not None, "there is something to move"
        for place in to:
            check_movable(before, place)
        url = before.config.replica
        assert url is not None, "checked"
        terms: dict[int, int] = {}
        for disk in sorted(set(to.values())):
            places = tuple(place for place, where in to.items() if where == disk)
            node = disks.found[disk].node.id
            terms |= cluster.on_node(node, terms_in, url, before.store_id, places)
        after = moved(before, to, terms)
        for place, disk in to.items():
            where = disks.found[disk].node.name
            log.warning("%s is moved to %s, in term %d", named(place), where, after.moved[place])
        for disk in sorted(set(to.values())):
            disks.describe(disks.found[disk], after)
        disks.take(after)

    def move_from(self, leaving: Collection[str]) -> None:
        """Have all parts of these disks served from others. Raises as ``move``."""
        found = self._disks.description
        assert found is not None, "there is something to move"
        places = [place for disk in sorted(leaving) for place in found.places_of(disk)]
        if places:
            there = set(self._disks.found) - set(leaving) - self._disks.leaving
            self.move(targets(found, places, there))

    # ---- by itself -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """After every look: move what is to be moved by itself, bring back what old disks have."""
        found = self._disks.description
        if found is None or found.state != "made" or self._disks.conflict is not None:
            return
        if found.failover == "auto":
            self._move_by_itself(found)
        self._bring_back(found)

    def _move_by_itself(self, found: Description) -> None:
        now = time.monotonic()
        gone = {d for d, since in self._disks.away.items() if now - since >= found.failover_after_s}
        # A node that is drained ends its owners in order: their parts move when that is done.
        gone |= self._disks.left & self._disks.away.keys()
        if not gone:
            return
        try:
            self.move_from(gone)
        except NeverforgetError as error:
            if now - self._said_at >= _SAY_AGAIN_S:
                self._said_at = now
                log.error("nothing is moved by itself: %s", error)

    def _bring_back(self, description: Description) -> None:
        for disk, found in self._disks.found.items():
            for place in set(found.disk.holds) - set(description.places_of(disk)):
                if not description.moved.get(place) or description.config.replica is None:
                    continue
                back = self._returns.setdefault((disk, place), _Return(place))
                back.go_on(found, description)


class _Return:
    """What one old disk still has of one part, on its way to the owner."""

    def __init__(self, place: int) -> None:
        self.finding: Finding | None = None
        self._place = place
        self._thread: threading.Thread | None = None
        self._due = float("-inf")
        self._pause_s = _PAUSE_S_MIN

    def go_on(self, found: Found, description: Description) -> None:
        """Begin, or begin again, unless it goes on."""
        if self._thread is not None and self._thread.is_alive():
            return
        if time.monotonic() < self._due:
            return
        self._thread = threading.Thread(
            target=self._run, args=(found, description), name=f"return-{self._place}", daemon=True
        )
        self._thread.start()

    def _run(self, found: Found, description: Description) -> None:
        where = f"{found.disk.path} on {found.node.name}"
        try:
            told = cluster.on_node(
                found.node.id, bring_back, found.disk.path, found.disk.disk, description,
                self._place, wait_s=None,
            )  # fmt: skip
        except Unavailable as error:
            self._fail(where, error)
        except NeverforgetError as error:
            self._fail(where, error)
            self._pause_s = _PAUSE_S_MAX
        except Exception as error:
            log.exception("bringing back what %s has failed", where)
            self._fail(where, error)
        else:
            left = tuple(place for place in found.disk.holds if place != self._place)
            found.disk = replace(found.disk, holds=left)
            self._pause_s = _PAUSE_S_MIN
            if told is not None:
                self.finding = Finding("salvaged", "repaired", where, 0, 0, told)
                log.warning("%s: %s", where, told)
            elif self.finding is not None and self.finding.kind == _NOT_YET:
                self.finding = None  # nothing is missing, or it was brought by somebody else

    def _fail(self, where: str, error: Exception) -> None:
        self._due = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)
        message = f"what {named(self._place)} left here is not brought back yet: {error}"
        self.finding = Finding(_NOT_YET, "repaired", where, 0, 0, message)
        log.warning("%s: %s", where, message)
