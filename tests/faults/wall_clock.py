"""A wall clock that can be set wrong, while processes go by it; see ``clock_shim.c``."""

from __future__ import annotations

import os
import struct
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_shim.c")
HOUR_NS = 3600 * 10**9


class WallClock:
    """``environment``: of processes that go by it. It begins right. ``library``: compiled."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        file.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "NF_CLOCK_FILE": str(file)}

    def shift(self, hours: float) -> None:
        """So far from the right time from now on, for whoever asks next."""
        with open(self._file, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("=q", int(hours * HOUR_NS)), 0)
