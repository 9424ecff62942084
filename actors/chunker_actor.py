"""A member of the chunker pool as an actor. It ends with the owner that had it made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neverforget.actors.background import give_way
from neverforget.actors.chunker_spec import Chunked, ChunkerSpec, Document
from neverforget.actors.process_end import when_ended
from neverforget.storage.directory_lock import ProcessId

if TYPE_CHECKING:
    from neverforget.actors.chunker import Chunker


class ChunkerActor:
    """What it raises when it is made, or asked, is what the one who had it made is told."""

    def __init__(self, spec: ChunkerSpec, owner: ProcessId) -> None:
        when_ended(owner, lambda: os._exit(1))
        give_way()
        self._spec = spec
        self._chunker: Chunker | None = None

    def ready(self) -> int:
        """Its pid, as soon as it can begin."""
        from neverforget.actors.chunker import Chunker

        self._chunker = self._chunker or Chunker(self._spec)
        return os.getpid()

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        assert self._chunker is not None, "it was asked whether it is ready"
        return self._chunker.chunk(documents)
