"""How a piece of an old log is asked of any region that is shipped."""

from __future__ import annotations

from typing import Protocol

from neverforget.actors.messages import AnyReply
from neverforget.actors.salvage_messages import Salvage, SalvageReply
from neverforget.storage.errors import Unavailable
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.slices import Slices, in_one_go


class Salvaged(Protocol):
    @property
    def log_end(self) -> int: ...

    def salvage(self, piece: Piece) -> Slices[SalvageReport]: ...


def stage_salvage(region: Salvaged, r: Salvage, *, busy: bool = False) -> tuple[AnyReply, int]:
    """``busy``: something is under way that it must not come between."""
    if busy:
        raise Unavailable("the owner deletes; ask again", outcome="not_applied")
    from neverforget.storage.salvage_reading import decode_piece

    report = in_one_go(region.salvage(decode_piece(r.piece)))
    return SalvageReply(r.id, report), region.log_end
