"""One finished chunking on its way into the log, as a request that the owner's loop stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from neverforget.actors.longterm_messages import EndReply
from neverforget.actors.message_bases import SYNC_PROCESS, Request
from neverforget.actors.messages import AnyReply, AnyRequest
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_results import NewDerived

CHUNKER: Final = "chunker"  # who did it, for the audit


class Derive(Request, tag=41):
    """Store one chunking. Between threads of an owner only: no client may ask for it."""

    original: str
    version: int
    parts: list[NewDerived]
    splitter: str
    sync: int = SYNC_PROCESS


def stage_derive(region: LongTermRegion, r: Derive) -> tuple[AnyReply, int]:
    # Its ids say what it is: no request id is needed to know it again.
    result = region.derive(
        r.original, r.version, r.parts, by=CHUNKER, request=(0, 0), splitter=r.splitter
    )
    return EndReply(r.id, result.end), result.end


class Deriving:
    """A ``Pending``. ``done`` is told the answer, once, on the owner's thread."""

    alive = True

    def __init__(self, derive: Derive, done: Callable[[AnyReply], None]) -> None:
        self._derive = derive
        self._done: Callable[[AnyReply], None] | None = done

    @property
    def request(self) -> AnyRequest:
        return cast("AnyRequest", self._derive)  # it is none that comes by a socket

    def reply(self, message: AnyReply) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(message)
