"""Answers that wait for the indexes: of erasures, until no derived file holds what was erased; of
``Settle``, until everything is chunked and searchable. The owner's loop calls it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_messages import MemoriesErasedReply
from neverforget.actors.messages import AnyReply, DoneReply, Settle
from neverforget.actors.ports import Pending, failure
from neverforget.storage.errors import NeverforgetError, Unavailable

_LOOK_S: Final = 0.5  # in case a wake-up was missed


class _Erased(NamedTuple):
    pending: Pending
    reply: AnyReply
    end: int


class Promises:
    def __init__(self) -> None:
        self._erased: list[_Erased] = []
        self._settling: list[Pending] = []

    def __len__(self) -> int:
        return len(self._erased) + len(self._settling)

    def deadline(self, now: float) -> float | None:
        return now + _LOOK_S if len(self) else None

    def when_clean(self, pending: Pending, reply: AnyReply, end: int) -> None:
        """``end``: behind the erasure in the log."""
        self._erased.append(_Erased(pending, reply, end))

    def when_settled(self, pending: Pending) -> None:
        self._settling.append(pending)

    def keep(self, indexing: Indexing, *, chunked: bool) -> None:
        """Answer those whose promise is kept, or cannot be for now. ``chunked``: nothing waits for
        that.
        """
        self._erased = [one for one in self._erased if not _answered(one, indexing)]
        settling = [pending for pending in self._settling if pending.alive]
        if settling and chunked and indexing.idle:
            for pending in settling:
                pending.reply(DoneReply(pending.request.id))
            settling = []
        self._settling = [pending for pending in settling if not _refused(pending)]

    def close(self, error: NeverforgetError) -> None:
        for one in self._erased:
            one.pending.reply(_not_clean(one, error))
        for pending in self._settling:
            pending.reply(failure(pending.request.id, error))
        self._erased, self._settling = [], []


def _refused(pending: Pending) -> bool:
    """Whether it was not to be waited for."""
    request = pending.request
    if not (isinstance(request, Settle) and request.at_once):
        return False
    message = "not everything that was remembered is indexed yet; settle with more time"
    pending.reply(failure(request.id, Unavailable(message)))  # no outcome: it is not asked again
    return True


def _answered(one: _Erased, indexing: Indexing) -> bool:
    if indexing.is_clean(one.end):
        one.pending.reply(one.reply)
        return True
    if indexing.error is not None:
        one.pending.reply(_not_clean(one, indexing.error))
        return True
    return False


def _not_clean(one: _Erased, error: NeverforgetError) -> AnyReply:
    """The log holds nothing of it any more, and no search finds it; a copy is on the disk still."""
    said = f"search indexes, which are rewritten as soon as possible ({error.message})"
    if isinstance(one.reply, MemoriesErasedReply):
        result = one.reply.result
        unreachable = [*result.unreachable, said]
        result = msgspec.structs.replace(result, unreachable=unreachable)
        return MemoriesErasedReply(one.reply.id, result)
    message = f"the log is purged; copies are left in {said}; repeat the call to wait for that"
    return failure(one.pending.request.id, Unavailable(message, outcome="unknown"))
