"""Indexing anew that stops in the middle, until it is let go on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from neverforget.storage import longterm_documents, longterm_generations

PATIENCE_S = 30.0


class StopsAtADocument:
    """The first text that is indexed anew waits until the owner ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.documents = 0
        real = longterm_documents.document_of

        def document_of(*given: Any) -> Any:
            self.documents += 1
            self.entered.set()
            assert self.go_on.wait(PATIENCE_S)
            return real(*given)

        monkeypatch.setattr(longterm_generations, "document_of", document_of)

    def go_on_when(self, ending: threading.Event) -> None:
        ending.wait(PATIENCE_S)
        self.go_on.set()
