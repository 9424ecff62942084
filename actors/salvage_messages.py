"""Bringing what a former owner had acknowledged to the one that serves now."""

from __future__ import annotations

from neverforget.actors.message_bases import SYNC_REPLICA, Reply, Request
from neverforget.storage.salvage_results import SalvageReport


class Salvage(Request, tag=94):
    """``piece``: of the end of an old log, see ``storage/salvage_reading.py``; piece by piece in
    order. Conflict: begin again with the first. Answered when what came of it is shipped.
    """

    piece: bytes
    sync: int = SYNC_REPLICA


class SalvageReply(Reply, tag=180):
    """``report``: of the piece; of all of them behind the last."""

    report: SalvageReport
