"""One turn's mutations: staged together, written together, synced at most once.

What an answer means: after ``SYNC_DISK`` (and for everything but appends) fdatasync has covered it
and it survives a power loss; after ``SYNC_PROCESS`` it is in the file and survives the death of any
process. A repeat of what is not durable yet waits like the original.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from neverforget.actors.messages import SYNC_DISK, AnyReply, Append, Fork
from neverforget.actors.parked_waits import SessionName
from neverforget.actors.partition_requests import STAGED
from neverforget.actors.ports import Pending, failure
from neverforget.storage.errors import NeverforgetError, Poisoned
from neverforget.storage.region import Region


class Group:
    """``refusal``: why the region takes no writes, None: it does."""

    def __init__(
        self, region: Region, pendings: Sequence[Pending], refusal: NeverforgetError | None
    ) -> None:
        self.later: deque[Pending] = deque()  # what is no mutation, and what nobody has looked at
        self.changed: set[SessionName] = set()  # sessions that may have new turns
        self.mutates = False
        self._region = region
        self._pendings = pendings
        self._refusal = refusal
        self._waiting: list[tuple[Pending, AnyReply, int, bool]] = []

    def commit(self, flush: Callable[[], None]) -> None:
        """Raises Poisoned when the log has failed; see ``fail``."""
        self._stage()
        if not self._waiting:
            return
        region = self._region
        region.write()
        for_disk = []
        durable = region.durable
        for pending, reply, end, disk in self._waiting:
            if disk and end > durable:
                for_disk.append((pending, reply))
            else:
                pending.reply(reply)
        if for_disk:
            if len(for_disk) < len(self._waiting):
                flush()
            region.sync()
            for pending, reply in for_disk:
                pending.reply(reply)
        flush()

    def fail(self, error: BaseException) -> None:
        """Whoever has no answer yet is told that the outcome is unknown. ``later`` is left: nothing
        of that was begun."""
        unknown = outcome_unknown(error)
        for pending, _, _, _ in self._waiting:
            pending.reply(failure(pending.request.id, unknown))

    def _stage(self) -> None:
        for number, pending in enumerate(self._pendings):
            request = pending.request
            stage = STAGED.get(type(request))
            if stage is None:
                self.later.append(pending)
                continue
            if self._refusal is not None:
                pending.reply(failure(request.id, self._refusal))
                continue
            disk = type(request) is not Append or request.sync == SYNC_DISK
            try:
                reply, end = stage(self._region, request)
            except Poisoned as error:
                pending.reply(failure(request.id, outcome_unknown(error)))
                self.later.extend(self._pendings[number + 1 :])
                raise
            except NeverforgetError as error:
                pending.reply(failure(request.id, error))
                continue
            self.mutates = True
            self._waiting.append((pending, reply, end, disk))
            if isinstance(request, Append | Fork):
                self.changed.add((request.namespace, request.session))


def outcome_unknown(error: BaseException) -> Poisoned:
    return Poisoned(
        f"the outcome is unknown ({error}); the owner opens its log anew; repeat with the same key"
    )
