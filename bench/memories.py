"""Synthetic memories that look like real ones: vectors in clusters, words by Zipf's law.

The vectors follow what MiniLM makes of conversations: a common direction, a spectrum that falls as
1/k, topics within groups of topics; a memory's nearest of some thousand others has a cosine of
about 0.6. A topic has words of its own, so that what is near by meaning shares words more often
than not. Everything follows from the number of a memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from neverforget.storage.longterm_results import NewMemory

Array = np.ndarray[Any, np.dtype[Any]]

DIMENSION: Final = 384
BLOCK: Final = 1_000  # memories made at once
_VOCABULARY = 50_000
_STOP_WORDS = 60  # the most frequent words are no part of queries
_WORDS_EACH, _TOPIC_WORDS, _OF_TOPIC = 40, 30, 8
_QUERY_WORDS = 6
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]


class Corpus:
    """``count`` memories. ``seed`` 0: those of every benchmark."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self._seed = count, seed
        rng = np.random.default_rng(seed)
        scale = 1 / np.sqrt(np.arange(DIMENSION) + 2.5)
        self._scale = (scale / np.linalg.norm(scale)).astype(np.float32)
        self._mean = self._drawn(rng, 1)[0] * 0.4
        groups = self._drawn(rng, 64)
        topics = max(64, count // 40)
        self._topics = 0.6 * groups[rng.integers(0, 64, topics)] + 0.5 * self._drawn(rng, topics)
        ranks = np.arange(1, _VOCABULARY + 1)
        self._frequency = np.cumsum(1 / ranks**1.05)
        self._frequency /= self._frequency[-1]
        self._topic_words = rng.integers(120, _VOCABULARY // 4, (topics, _TOPIC_WORDS))

    @cached_property
    def vocabulary(self) -> list[str]:
        rng = np.random.default_rng(7)
        found: dict[str, None] = {}
        while len(found) < _VOCABULARY:
            # Frequent words are short ones.
            parts = rng.integers(0, len(_SYLLABLES), 2 if len(found) < 2_000 else 3)
            found["".join(_SYLLABLES[p] for p in parts)] = None
        return list(found)

    def vectors(self, first: int, last: int) -> Array:
        """Of length 1, float32."""
        return np.concatenate([self._block(at)[0] for at in range(first, last, BLOCK)])

    def memories(self, first: int, last: int) -> list[NewMemory]:
        """With a tag that one of 100 has, one that one of 10,000 has, and metadata that say the
        same; the memory before it is its context.
        """
        found = []
        words = self.vocabulary
        for at in range(first, last, BLOCK):
            before = ""
            for n, places in enumerate(self._block(at)[1].tolist(), at):
                text = " ".join([words[place] for place in places])
                found.append(
                    NewMemory(
                        f"018f{n >> 16:04x}-{n & 0xFFFF:04x}-7000-8000-{n:012x}",
                        text,
                        tags=(f"hundred:h{n % 100}", f"thousands:t{n % 10_000}"),
                        namespace=("user", f"u{n % 100}"),
                        metadata={"n": n % 100, "m": n % 10_000},
                        context=before or None,
                    )
                )
                before = text
        return found

    def queries(self, count: int) -> list[tuple[str, Array]]:
        """Six words of some memory, the two most frequent among them (3 to 5 % of all memories have
        such a one), and a vector beside its own, cosine about 0.75.
        """
        rng = np.random.default_rng(self._seed + 1)
        found = []
        for n in rng.integers(0, self.count, count).tolist():
            vectors, places = self._block(n // BLOCK * BLOCK)
            asked = np.unique(places[n % BLOCK])
            asked = asked[asked >= _STOP_WORDS]
            asked[2:] = rng.permutation(asked[2:])
            mixed = vectors[n % BLOCK] + 0.9 * _unit(self._drawn(rng, 1))[0]
            text = " ".join(self.vocabulary[place] for place in asked[:_QUERY_WORDS].tolist())
            found.append((text, _unit(mixed[None])[0]))
        return found

    def _block(self, first: int) -> tuple[Array, Array]:
        """Vectors, and places in the vocabulary, of ``BLOCK`` memories."""
        assert first % BLOCK == 0
        rng = np.random.default_rng((self._seed, first))
        topics = (len(self._topics) * rng.random(BLOCK) ** 1.5).astype(int)
        vectors = _unit(self._mean + self._topics[topics] + 0.62 * self._drawn(rng, BLOCK))
        places = self._frequency.searchsorted(rng.random((BLOCK, _WORDS_EACH)))
        own = rng.integers(0, _TOPIC_WORDS, (BLOCK, _OF_TOPIC))
        places[:, :_OF_TOPIC] = self._topic_words[topics[:, None], own]
        return vectors, places

    def _drawn(self, rng: np.random.Generator, count: int) -> Array:
        drawn: Array = rng.standard_normal((count, DIMENSION), np.float32) * self._scale
        return drawn


def _unit(rows: Array) -> Array:
    found: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found.astype(np.float32)
