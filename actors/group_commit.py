"""One turn's mutations: staged together, written together, synced at most once.

What an answer means: after ``SYNC_DISK`` (and for everything that asks for no level) fdatasync has
covered it and it survives a power loss; after ``SYNC_PROCESS`` it is in the file and survives the
death of any process. ``SYNC_REPLICA`` is durable here, and its answer waits in ``for_replica``
until it is shipped. A repeat of what is not durable yet waits like the original.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from neverforget.actors.message_bases import SYNC_REPLICA
from neverforget.actors.messages import SYNC_DISK, SYNC_PROCESS, AnyReply
from neverforget.actors.metrics import Meter
from neverforget.actors.ports import Pending, failure, internal_error
from neverforget.storage.errors import (
    Conflict,
    Corrupt,
    InvalidArgument,
    NeverforgetError,
    Poisoned,
)

log = logging.getLogger(__name__)


class Written(Protocol):
    """A region, as far as its log is written."""

    @property
    def log_end(self) -> int: ...

    @property
    def durable(self) -> int: ...

    def write(self) -> None: ...

    def sync(self) -> None: ...


L = TypeVar("L", bound=Written)
T = TypeVar("T")  # not bound: pyright, given a single file, takes that the wrong way round
# Answers with the log position that must be written, or durable, before the reply may go out.
Stage = Callable[[T, Any], tuple[AnyReply, int]]


class Mutations(Generic[L]):
    """``stages``: how each kind of request is staged. ``refusal``: why the region takes no writes,
    None: it does. ``shipped``: the log is shipped. ``began``: when, on the clock of ``meter``.
    """

    def __init__(
        self,
        region: L,
        stages: Mapping[type, Stage[L]],
        pendings: Sequence[Pending],
        refusal: NeverforgetError | None,
        meter: Meter,
        *,
        shipped: bool = False,
    ) -> None:
        self.later: deque[Pending] = deque()  # what is no mutation, and what nobody has looked at
        self.staged: list[tuple[Pending, AnyReply, int, int]] = []  # ... end, sync level
        self.for_replica: list[tuple[Pending, AnyReply, int]] = []  # ... end; durable here
        self._region = region
        self._stages = stages
        self._pendings = pendings
        self._refusal = refusal
        self._shipped = shipped
        self._meter = meter
        self.began = meter.now()
        self._conflicts: list[tuple[Pending, AnyReply]] = []

    def carry_out(self, send: Callable[[], None]) -> None:
        """Raises Poisoned when the log has failed; see ``fail``."""
        self._stage()
        if not self.staged and not self._conflicts:
            return
        region, meter = self._region, self._meter
        region.write()
        for_disk, for_replica = [], []
        written, durable = 0, region.durable
        for pending, reply, end, level in self.staged:
            if level == SYNC_REPLICA:
                for_replica.append((pending, reply, end))
            elif level and end > durable:
                for_disk.append((pending, reply))
            else:
                written += level == SYNC_PROCESS
                pending.reply(reply)
        if written:
            meter.appends[SYNC_PROCESS].add(meter.now() - self.began, written)
        if for_disk or (for_replica and any(end > durable for *_, end in for_replica)):
            if len(for_disk) + len(for_replica) < len(self.staged):
                send()
            ended = meter.sync(region)
            for pending, reply in for_disk:
                pending.reply(reply)
            meter.appends[SYNC_DISK].add(ended - self.began, len(for_disk))
        self.for_replica = for_replica
        for pending, reply in self._conflicts:
            pending.reply(reply)
        send()

    def fail(self, error: BaseException) -> None:
        """Whoever has no answer yet is told that the outcome is unknown. ``later`` is left: nothing
        of that was begun."""
        unknown = outcome_unknown(error)
        for pending in [w[0] for w in self.staged] + [c[0] for c in self._conflicts]:
            pending.reply(failure(pending.request.id, unknown))

    def _stage(self) -> None:
        region, stages = self._region, self._stages
        for number, pending in enumerate(self._pendings):
            request = pending.request
            stage = stages.get(type(request))
            if stage is None:
                self.later.append(pending)
                continue
            if self._refusal is not None:
                pending.reply(failure(request.id, self._refusal))
                continue
            end_before = region.log_end
            try:
                level = getattr(request, "sync", SYNC_DISK)
                if level != SYNC_DISK and level != SYNC_PROCESS:
                    self._check_level(level)
                reply, end = stage(region, request)
            except Poisoned as error:
                pending.reply(failure(request.id, outcome_unknown(error)))
                self.later.extend(self._pendings[number + 1 :])
                raise
            except Conflict as error:
                # What it conflicts with may be staged only: if that is lost, so is this answer.
                self._conflicts.append((pending, failure(request.id, error)))
                continue
            except NeverforgetError as error:
                pending.reply(failure(request.id, error))
                continue
            except Exception as error:
                if region.log_end != end_before:
                    raise  # what is staged is in doubt
                pending.reply(failure(request.id, of_one_request(error)))
                continue
            self.staged.append((pending, reply, end, level))

    def _check_level(self, sync: int) -> None:
        if sync == SYNC_REPLICA:
            if self._shipped:
                return
            raise InvalidArgument(
                'sync is "replica", and this store has no replica; open it with '
                'replica="s3://..." or another place (a deployed one: set settings.replica and '
                'deploy again), or pass sync="disk"'
            )
        raise InvalidArgument(f"this owner knows no sync level {sync}")


def of_one_request(error: Exception) -> NeverforgetError:
    """What the client is told of an error that leaves the log, and everybody else, as they were."""
    if isinstance(error, OSError):
        return Corrupt(f"the log cannot be read: {error}")
    log.exception("a request failed")
    return internal_error(error)


def outcome_unknown(error: BaseException) -> Poisoned:
    return Poisoned(
        f"the outcome is unknown ({error}); the owner opens its log anew; repeat with the same key"
    )
