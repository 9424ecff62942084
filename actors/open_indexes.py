"""What is derived in one folder, opened, and what keeps it up with the log. The indexer's thread
calls it all.
"""

from __future__ import annotations

from typing import Final

from neverforget.actors.embedding_pumps import Description, EmbeddingPumps
from neverforget.actors.generation_storing import Storing
from neverforget.storage.errors import NeverforgetError
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex

SLICE: Final = 256  # memories whose words are brought at once


class OpenIndexes:
    """``pumps`` None: nothing is embedded."""

    def __init__(self, stored: Generations, storing: Storing, pumps: EmbeddingPumps | None) -> None:
        self.stored, self.storing, self.pumps = stored, storing, pumps
        self.more = False  # whether to step again at once

    @property
    def index(self) -> LongTermIndex:
        return self.stored.index

    @property
    def error(self) -> NeverforgetError | None:
        """Why the last generation could not be stored."""
        return self.storing.error

    @property
    def has_all_words(self) -> bool:
        view = self.index.view()
        return not view.lagging and view.words_upto >= self.index.upto

    @property
    def has_all_vectors(self) -> bool:
        """That can be had."""
        return not self.index.view().waiting

    def is_clean(self, end: int) -> bool:
        """No file here holds what was erased in the log below ``end``."""
        return self.index.upto >= end and not self.index.erased

    def step(self) -> bool:
        """Bring a slice of words, texts to the embedder, vectors back; see to the generation. True:
        there is something to see.
        """
        index, pumps = self.index, self.pumps
        before = index.view().words_upto
        left = index.bring(SLICE)
        changed = left > 0 or index.view().words_upto != before
        if pumps is not None:
            changed = pumps.take_back(index) or changed
            pumps.hand_out(index)
        if changed:
            self.storing.note_change()
        # What was erased is to leave the files, whatever else is still to be brought.
        may_begin = self.storing.running or not left or index.erased
        done = may_begin and self.storing.step()
        self.more = left > 0 or done
        return changed or done

    def described(self) -> Description | None:
        """What the embedder has said of itself, once, when it may be acted on."""
        if self.pumps is None or self.storing.running:
            return None
        said, self.pumps.described = self.pumps.described, None
        return said

    def deadlines(self) -> list[float]:
        dues = [self.storing.deadline()]
        if self.pumps is not None:
            dues += [self.pumps.deadline(), self.pumps.health.retry_at]
        return [at for at in dues if at is not None]

    def close(self, *, orderly: bool) -> None:
        if self.pumps is not None:
            self.pumps.close()
        if self.storing.close(orderly=orderly):
            self.stored.close()
