"""Two copies of one region that went on apart: the old one, whose end nobody shipped, and the one
that counts. What is to be salvaged is read from the files of the old one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from neverforget.storage.old_logs import parts_of_log
from neverforget.storage.salvage_reading import PIECE_BYTES, decode_piece, encode_piece, pieces
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.slices import in_one_go
from tests.storage.small_longterm import LongTermBench
from tests.storage.small_region import Bench

STREAM = 1234


class Parted:
    """``old`` and ``new`` hold the same up to ``parting``."""

    def __init__(self, front: Bench, directory: Path) -> None:
        front.region.seal()
        self.parting = front.region.durable
        front.region.close()
        shutil.copytree(front.directory, directory)
        self.old = front
        self.old.reopen()
        self.new = Bench(directory)
        self.new.client.producer = front.client.producer + 11
        self.new.clock.wall_us = front.clock.wall_us + 10**9

    def pieces(self, bytes_max: int = PIECE_BYTES, stream: int = STREAM) -> list[Piece]:
        """Of what the old one's files hold now, as they travel."""
        return list(read(self.old, self.parting, bytes_max, stream))

    def salvage(self, bytes_max: int = PIECE_BYTES, stream: int = STREAM) -> SalvageReport:
        """All of it, durable in the new one when this returns."""
        return salvage(self.new, self.pieces(bytes_max, stream))

    def close(self) -> None:
        self.old.close()
        self.new.close()


class PartedLongTerm:
    """The same of a long-term region."""

    def __init__(self, front: LongTermBench, directory: Path) -> None:
        front.region.seal()
        self.parting = front.region.durable
        front.region.close()
        shutil.copytree(front.directory, directory)
        self.old = front
        front.region = front.open()
        self.new = LongTermBench(directory)
        self.new.producer, self.new.drawn = front.producer + 11, 10_000
        self.new.clock.wall_us = front.clock.wall_us + 10**9

    def salvage(self, bytes_max: int = PIECE_BYTES) -> SalvageReport:
        return salvage(self.new, list(read(self.old, self.parting, bytes_max, STREAM)))

    def close(self) -> None:
        self.old.region.close()
        self.new.region.close()


def read(old: Bench | LongTermBench, parting: int, bytes_max: int, stream: int) -> Iterator[Piece]:
    log_id = old.region.log_id
    parts = parts_of_log(old.fs, old.directory / "log", parting)
    for piece in pieces(parts, log_id=log_id, parting=parting, stream=stream, bytes_max=bytes_max):
        if piece is not None:
            yield decode_piece(encode_piece(piece))


def salvage(new: Bench | LongTermBench, found: list[Piece]) -> SalvageReport:
    report = SalvageReport()
    for piece in found:
        report = in_one_go(new.region.salvage(piece))
        new.region.write()
        new.region.sync()
    return report
