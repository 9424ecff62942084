"""Summarizers of known behaviour, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any


class Answering:
    """Says the same of every text, or raises it. ``asked`` counts in this process."""

    def __init__(self, answer: object = "In short.", summarizer_id: str = "answering") -> None:
        self.summarizer_id = summarizer_id
        self.answer = answer
        self.asked = 0

    def summarize(self, text: str, /) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Hanging:
    """Never answers before it is ``released``."""

    summarizer_id = "hanging"

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.asked = 0

    def summarize(self, text: str, /) -> str:
        self.asked += 1
        self.entered.set()
        self.released.wait()
        return ""


HELD, DEADLY = "heldtext", "deadlytext"


class Trying:
    """Takes its process with it when a text says ``DEADLY``. Of one that says ``HELD`` it says in
    ``folder`` that it is at work (``held-PID``), and waits there for leave to go on (``go``).
    """

    summarizer_id = "trying"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def summarize(self, text: str, /) -> str:
        if DEADLY in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if HELD in text:
            (self.folder / f"held-{os.getpid()}").touch()
            pause = threading.Event()
            while not (self.folder / "go").exists():
                pause.wait(0.02)
        return "In short."
