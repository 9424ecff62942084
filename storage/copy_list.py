"""What a copy of a region is made of; see ``backup_pieces.py``."""

from __future__ import annotations

from msgspec import Struct


class CopyFile(Struct, array_like=True, frozen=True):
    """``name``: below the region's directory. Its first ``bytes`` are to be copied; the file has
    ``size`` in all, and zeros behind them.
    """

    name: str
    bytes: int
    size: int


class CopyList(Struct, array_like=True, frozen=True):
    """``files``: in the order in which they are to be written; the identity last. ``durable``: the
    log's durable mark; ``stamp``: while it is the same, nothing of it has changed.
    """

    stamp: tuple[int, int]
    durable: int
    files: list[CopyFile]
