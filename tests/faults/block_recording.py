"""What a recording device saw, and the disks that a power cut could have left at any moment of it.

Journal: entries of kind, length, offset, monotonic time, then the data; kind 1 is a write, 2 a
flush. Everything before the last flush before the cut is on the disk; each write after it is there,
lost, or torn at 512-byte sectors, on its own.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_ENTRY = struct.Struct("<BxxxIQQ")
WRITE, FLUSH = 1, 2
SECTOR_BYTES = 512


class Event(NamedTuple):
    kind: int
    offset: int
    at_ns: int
    data: bytes


@dataclass
class Recording:
    """``base``: the image before the first event."""

    base: Path
    events: list[Event]

    @classmethod
    def load(cls, base: Path, journal: Path) -> Recording:
        raw = journal.read_bytes()
        events, at = [], 0
        while at < len(raw):
            kind, length, offset, at_ns = _ENTRY.unpack_from(raw, at)
            at += _ENTRY.size
            events.append(Event(kind, offset, at_ns, raw[at : at + length]))
            at += length
        return cls(base, events)

    def first_after(self, at_ns: int) -> int:
        return next((i for i, e in enumerate(self.events) if e.at_ns > at_ns), len(self.events))

    def flushes(self) -> int:
        return sum(event.kind == FLUSH for event in self.events)

    def crash_state(self, before: int, image: Path, choices: random.Random) -> int:
        """Write the disk as a power cut just before event number ``before`` may leave it. Returns
        the moment of the cut.
        """
        flushed = max((i for i in range(before) if self.events[i].kind == FLUSH), default=-1)
        shutil.copyfile(self.base, image)
        descriptor = os.open(image, os.O_RDWR | os.O_CLOEXEC)
        try:
            for index, event in enumerate(self.events[:before]):
                if event.kind != WRITE:
                    continue
                fate = choices.randrange(3) if index > flushed else 0
                if fate == 0:
                    os.pwrite(descriptor, event.data, event.offset)
                elif fate == 1:
                    for at in range(0, len(event.data), SECTOR_BYTES):
                        if choices.random() < 0.5:
                            sector = event.data[at : at + SECTOR_BYTES]
                            os.pwrite(descriptor, sector, event.offset + at)
        finally:
            os.close(descriptor)
        return self.events[before].at_ns if before < len(self.events) else 1 << 63
