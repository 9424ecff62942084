"""Summarizers of known behaviour, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import threading
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
        self.released = threading.Event()
        self.asked = 0

    def summarize(self, text: str, /) -> str:
        self.asked += 1
        self.released.wait()
        return ""


class Deadly:
    """Takes its process with it when a text says ``word``."""

    summarizer_id = "deadly"

    def __init__(self, word: str) -> None:
        self.word = word

    def summarize(self, text: str, /) -> str:
        if self.word in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return "In short."
