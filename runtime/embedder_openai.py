"""Embeddings from any endpoint that speaks OpenAI's ``POST /embeddings``.

Keys and faults are those of ``openai_endpoint.py``. What may lie in a text (a request that is
refused, an answer that is not right) is NotEmbedded, and the caller finds the text.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from neverforget.actors.embedder_contract import NotEmbedded, Vectors
from neverforget.actors.tokenizers import estimate
from neverforget.actors.turn_text import carried
from neverforget.runtime import text_windows
from neverforget.runtime.openai_endpoint import OpenAIEndpoint, Refused
from neverforget.runtime.openai_names import EMBEDDER_KEY, parse_openai
from neverforget.storage.clock import Clock, SystemClock

DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
# What OpenAI's own models read is 8,191 tokens; the estimate may be a quarter too low. Of others
# nothing is known; most read at least 512, and some servers cut silently what is longer.
WINDOW_TOKENS_OPENAI, WINDOW_TOKENS_OTHER = 6000, 384

BATCH_TEXTS_MAX = 64
BATCH_BYTES_MAX = 256 * 1024
REQUEST_S, DEADLINE_S = 20.0, 45.0


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


class OpenAIEmbedder:
    """``name`` is "openai:MODEL@https://host/v1". ``dimension`` is only expected, not asked for; of
    a model that is not OpenAI's it is learned from the first answer.

    ``clock``, ``sleep`` and ``chance`` (0 to 1) are passed in for tests.
    """

    batch_texts_max = BATCH_TEXTS_MAX
    thread_safe = True

    def __init__(
        self,
        name: str,
        *,
        dimension: int | None = None,
        request_s: float = REQUEST_S,
        deadline_s: float = DEADLINE_S,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._name = parse_openai(name)
        self.model_id = str(self._name)
        self.deadline_s = deadline_s
        self._dimension = dimension or DIMENSIONS.get(self._name.model)
        self._clock = clock or SystemClock()
        self._endpoint = OpenAIEndpoint(
            self._name,
            f"the embedder {self.model_id}",
            EMBEDDER_KEY,
            request_s=request_s,
            clock=self._clock,
            sleep=sleep,
            chance=chance,
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model_id!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "dimension": self._dimension,
            "request_s": self._endpoint.request_s,
            "deadline_s": self.deadline_s,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.model_id, self.__getstate__())

    @property
    def dimension(self) -> int:
        """Known, or asked of the endpoint with one short text. Raises Unavailable."""
        if self._dimension is None:
            self.embed(["neverforget"])
            assert self._dimension is not None
        return self._dimension

    def windows(self, text: str) -> list[str]:
        """Parts of a size that the model reads for certain, counted by the estimate."""
        known = self._name.model in DIMENSIONS
        return text_windows.windows(
            text, estimate, WINDOW_TOKENS_OPENAI if known else WINDOW_TOKENS_OTHER
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in as many requests as the bounds ask for, within ``deadline_s``."""
        deadline = self._clock.monotonic() + self.deadline_s
        rows = [self._rows(batch, deadline) for batch in batches(texts)]
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), np.float32)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._endpoint.close()

    def _rows(self, texts: list[str], deadline: float) -> Vectors:
        content = {"model": self._name.model, "input": texts, "encoding_format": "float"}
        try:
            body = self._endpoint.post("embeddings", content, deadline - self._clock.monotonic())
            answer = msgspec.json.decode(body, type=_Answer)
        except Refused as error:
            raise NotEmbedded(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError):  # names a place, never the content
            raise NotEmbedded("the endpoint's answer is not a list of embeddings") from None
        data = answer.data
        if len(data) != len(texts):
            raise NotEmbedded(f"{len(data)} embeddings for {len(texts)} texts")
        if any(row.index is not None for row in data):
            data = sorted(data, key=lambda row: -1 if row.index is None else row.index)
            if [row.index for row in data] != list(range(len(texts))):
                raise NotEmbedded("embeddings that are not numbered 0, 1, 2, …")
        lengths = {len(row.embedding) for row in data}
        expected = self._dimension or len(data[0].embedding)
        if lengths != {expected} or not expected:
            raise NotEmbedded(f"embeddings of {sorted(lengths)} dimensions instead of {expected}")
        rows = np.array([row.embedding for row in data], np.float64)
        if not np.isfinite(rows).all():
            raise NotEmbedded("embeddings with values that are not finite")
        self._dimension = expected
        return rows.astype(np.float32)


def _rebuilt(name: str, state: dict[str, Any]) -> OpenAIEmbedder:
    return OpenAIEmbedder(name, **state)


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Runs of texts within both bounds; a text that is larger than the bound goes alone. Lone
    surrogates, which JSON cannot carry, become U+FFFD.
    """
    batch: list[str] = []
    held = 0
    for text in texts:
        size = len(text.encode("utf-8", "surrogatepass"))
        if batch and (len(batch) == BATCH_TEXTS_MAX or held + size > BATCH_BYTES_MAX):
            yield batch
            batch, held = [], 0
        batch.append(carried(text))
        held += size
    if batch:
        yield batch
