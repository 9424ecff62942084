"""Extractors of known behaviour, in a module that other processes can import."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from neverforget.actors.extractor_contract import Fact, Window, extractable

HOLD, BEGUN = "hold", "begun"


class Noting:
    """Makes one fact of every turn. ``folder``: while a file ``hold`` stands there it answers
    nobody; ``begun`` is made when it is asked.
    """

    def __init__(self, folder: Path | None = None, extractor_id: str = "noting-1") -> None:
        self.extractor_id = extractor_id
        self._folder = folder

    def extract(self, window: Window, /) -> list[Fact]:
        if self._folder is not None:
            (self._folder / BEGUN).touch()
            while (self._folder / HOLD).exists():
                time.sleep(0.01)
        return [
            Fact(
                f"{turn.speaker or turn.role}: {turn.text}",
                turn.seq,
                turn.seq,
                speaker=turn.speaker,
            )
            for turn in extractable(window)
        ]


class Deadly:
    """Takes its process down over a turn that says so."""

    extractor_id = "deadly-1"

    def extract(self, window: Window, /) -> list[Fact]:
        if any("deadly" in turn.text for turn in extractable(window)):
            os._exit(9)
        return Noting(None, self.extractor_id).extract(window)


class Failing:
    """Raises, until it is told not to."""

    extractor_id = "failing-1"

    def __init__(self) -> None:
        self.fails = True
        self.asked = 0

    def extract(self, window: Window, /) -> list[Fact]:
        self.asked += 1
        if self.fails:
            raise ValueError("no")
        return Noting(None, self.extractor_id).extract(window)


class Hanging:
    """Never answers before it is ``released``."""

    extractor_id = "hanging-1"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()

    def extract(self, window: Window, /) -> list[Fact]:
        self.asked.set()
        self.released.wait()
        return []
