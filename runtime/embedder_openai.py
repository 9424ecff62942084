"""Embeddings from any endpoint that speaks OpenAI's ``POST /embeddings``.

The key comes from the environment at each request: NEVERFORGET_EMBEDDER_KEY for whatever endpoint
the store names, else OPENAI_API_KEY, which only api.openai.com over TLS ever gets (a store that
somebody else made could name any host). It is in no attribute, no repr, no pickle and no error.
Errors hold the status and the endpoint's error code, never its prose: it may quote key or texts.

Faults: what may pass (no connection, time-outs, 408, 429, 5xx) is tried again with growing pauses,
or the pause that the endpoint asks for, until the deadline; then it is Unavailable, as is a refused
key or an unknown model. What may lie in a text (400, 413, 422, 500, an answer that is not right) is
NotEmbedded, and the caller finds the text.
"""

from __future__ import annotations

import email.utils
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from neverforget.actors.embedder_contract import NotEmbedded, Vectors
from neverforget.runtime import text_windows
from neverforget.runtime.embedder_names import OpenAIName, parse_openai
from neverforget.runtime.tokenizers import estimate
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    import httpx

OUR_KEY, OPENAI_KEY, OPENAI_HOST = "NEVERFORGET_EMBEDDER_KEY", "OPENAI_API_KEY", "api.openai.com"

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
ANSWER_BYTES_MAX = 64 * 1024 * 1024

CONNECT_S, REQUEST_S, DEADLINE_S = 5.0, 20.0, 45.0
TRIES_MAX = 4
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 8.0

_TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_PERHAPS_A_TEXT = frozenset({400, 413, 422, 500})
_CODE = re.compile(r"[\w.:-]{1,64}")


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


class _Waiting(Exception):
    """This try failed in a way that may pass. ``pause_s``: what the endpoint asks us to wait."""

    def __init__(self, why: str, pause_s: float | None = None, *, text: bool = False) -> None:
        super().__init__(why)
        self.why, self.pause_s, self.text = why, pause_s, text


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
        self._name: OpenAIName = parse_openai(name)
        self.model_id = str(self._name)
        self.request_s, self.deadline_s = request_s, deadline_s
        self._dimension = dimension or DIMENSIONS.get(self._name.model)
        self._clock, self._sleep, self._chance = clock or SystemClock(), sleep, chance
        self._client: tuple[int, httpx.Client] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model_id!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "dimension": self._dimension,
            "request_s": self.request_s,
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
        with self._lock:
            held, self._client = self._client, None
        if held is not None and held[0] == os.getpid():
            held[1].close()

    def _rows(self, texts: list[str], deadline: float) -> Vectors:
        try:
            answer = msgspec.json.decode(self._ask(texts, deadline), type=_Answer)
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

    def _ask(self, texts: list[str], deadline: float) -> bytes:
        """The body of the answer to one batch; tries again until ``deadline``."""
        content = {"model": self._name.model, "input": texts, "encoding_format": "float"}
        body = msgspec.json.encode(content)
        for tried in range(1, TRIES_MAX + 1):
            try:
                return self._try(body, deadline)
            except _Waiting as waiting:
                pause_s = waiting.pause_s
                if pause_s is None:
                    step = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** (tried - 1))
                    pause_s = step * (0.5 + self._chance() / 2)
                if tried == TRIES_MAX or self._clock.monotonic() + pause_s >= deadline:
                    if waiting.text:
                        raise NotEmbedded(f"{waiting.why}, {tried} times") from None
                    raise self._unavailable(f"{waiting.why}; tried {tried} times") from None
            self._sleep(pause_s)
        raise AssertionError("the last try answers or raises")

    def _try(self, body: bytes, deadline: float) -> bytes:
        import httpx

        left_s = min(self.request_s, max(0.001, deadline - self._clock.monotonic()))
        stop = self._clock.monotonic() + left_s
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key := self._key():
            headers["authorization"] = f"Bearer {key}"
        timeout = httpx.Timeout(left_s, connect=min(CONNECT_S, left_s))
        url = f"{self._name.base_url}/embeddings"
        try:
            with self._http().stream(
                "POST", url, content=body, headers=headers, timeout=timeout
            ) as response:
                status, asked = response.status_code, response.headers.get("retry-after")
                answer = self._read(response, stop)
        except httpx.InvalidURL:
            raise self._unavailable("no host has such an address") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            # Only its kind: it carries the request, and that the key. So nothing is chained.
            raise _Waiting(f"no answer ({type(error).__name__})") from None
        if status == 200:
            return answer
        why = f"status {status}{_code(answer)}"
        if status in _TRIED_AGAIN:
            pause_s = retry_after(asked, self._clock.now_us() / 1e6)
            raise _Waiting(why, pause_s, text=status in _PERHAPS_A_TEXT)
        if status in _PERHAPS_A_TEXT:
            raise NotEmbedded(why)
        remedy = f"; set the key in {OUR_KEY}" if status in (401, 403) else ""
        raise self._unavailable(why + remedy)

    def _read(self, response: httpx.Response, stop: float) -> bytes:
        """The whole body, in bounded time and space: a time-out of httpx is for each piece alone,
        and a piece may be one byte."""
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if self._clock.monotonic() > stop:
                raise _Waiting("no answer (too slow)")
            if len(body) > ANSWER_BYTES_MAX:
                raise NotEmbedded(f"an answer of more than {ANSWER_BYTES_MAX:,} bytes")
        return bytes(body)

    def _key(self) -> str | None:
        name = OUR_KEY
        key = os.environ.get(name, "").strip()
        if not key and (self._name.tls and self._name.host == OPENAI_HOST):
            name = OPENAI_KEY
            key = os.environ.get(name, "").strip()
        if not (
            key.isascii() and key.isprintable()
        ):  # else the refusal of the header would show it
            raise self._unavailable(f"{name} holds characters that no key has")
        return key or None

    def _http(self) -> httpx.Client:
        import httpx

        with self._lock:
            if (
                self._client is None or self._client[0] != os.getpid()
            ):  # a fork shares no connection
                limits = httpx.Limits(max_connections=8, max_keepalive_connections=2)
                self._client = os.getpid(), httpx.Client(limits=limits, follow_redirects=False)
            return self._client[1]

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(f"the embedder {self.model_id}: {why}", outcome="not_applied")


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
        batch.append(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        held += size
    if batch:
        yield batch


def retry_after(value: str | None, now_s: float) -> float | None:
    """Seconds that a Retry-After header asks for, in seconds or as a date. ``now_s`` since 1970."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now_s
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None


def _code(body: bytes) -> str:
    """`` (code)`` of an error in OpenAI's form, where it is a plain word."""
    try:
        error = msgspec.json.decode(body)["error"]
        found = error.get("code") or error.get("type")
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return ""
    return f" ({found})" if isinstance(found, str) and _CODE.fullmatch(found) else ""
