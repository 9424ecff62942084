"""A deterministic embedder for tests: texts with equal words are close. It knows no meaning."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neverforget.actors.embedder_contract import Vectors
from neverforget.runtime import text_windows

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Each word (case-folded) adds a fixed pseudo-random vector. The same numbers in every process
    and on every machine, and about a microsecond a word.
    """

    batch_texts_max = 256
    thread_safe = True

    def __init__(self, dimension: int = 64, words_max: int = 200) -> None:
        self.dimension = dimension
        self.words_max = words_max
        self.model_id = f"hash-{dimension}"

    def __repr__(self) -> str:
        return f"HashEmbedder(dimension={self.dimension}, words_max={self.words_max})"

    def windows(self, text: str) -> list[str]:
        """Parts of at most ``words_max`` words."""
        return text_windows.windows(text, _words, self.words_max)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, of length 1."""
        rows = np.empty((len(texts), self.dimension), np.float64)
        for row, text in enumerate(texts):
            words = _WORD.findall(text.casefold()) or [text]
            rows[row] = sum(self._vector(word) for word in words)
            if not rows[row].any():
                rows[row] = self._vector(text)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    def _vector(self, word: str) -> NDArray[np.float64]:
        raw = hashlib.shake_128(word.encode("utf-8", "surrogatepass")).digest(self.dimension)
        return np.frombuffer(raw, np.uint8).astype(np.float64) - 127.5


def _words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))
