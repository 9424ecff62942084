"""Any endpoint that speaks OpenAI's HTTP interface: one POST, its faults told apart, its key kept.

The key comes from the environment at each request: a variable of ours for whatever endpoint the
store names, else OPENAI_API_KEY, which only api.openai.com over TLS ever gets (a store that
somebody else made could name any host). It is in no attribute, no repr, no pickle and no error.
Errors hold the status and the endpoint's error code, never its prose: it may quote key or texts.

Faults: what may pass (no connection, time-outs, 408, 429, 5xx) is tried again with growing pauses,
or the pause that the endpoint asks for, until the deadline; then it is Unavailable, as is a refused
key or an unknown model. What may lie in what was sent (400, 413, 422, 500, an answer that is too
large) is ``Refused``.
"""

from __future__ import annotations

import email.utils
import os
import random
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from neverforget.runtime.openai_names import OpenAIName
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    import httpx

OPENAI_KEY, OPENAI_HOST = "OPENAI_API_KEY", "api.openai.com"
ANSWER_BYTES_MAX = 64 * 1024 * 1024
CONNECT_S = 5.0
TRIES_MAX = 4
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 8.0

_TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_PERHAPS_A_TEXT = frozenset({400, 413, 422, 500})
_CODE = re.compile(r"[\w.:-]{1,64}")


class Refused(Exception):
    """The endpoint is there and does not answer this; what was sent may be why. The message holds
    nothing of it.
    """


class _Waiting(Exception):
    """This try failed in a way that may pass. ``pause_s``: what the endpoint asks us to wait."""

    def __init__(self, why: str, pause_s: float | None = None, *, text: bool = False) -> None:
        super().__init__(why)
        self.why, self.pause_s, self.text = why, pause_s, text


class OpenAIEndpoint:
    """``what`` names it in errors, as "the embedder openai:…"; ``key_variable`` holds its key.

    ``clock``, ``sleep`` and ``chance`` (0 to 1) are passed in for tests.
    """

    def __init__(
        self,
        name: OpenAIName,
        what: str,
        key_variable: str,
        *,
        request_s: float,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.request_s = request_s
        self._what, self._key_variable = what, key_variable
        self._clock, self._sleep, self._chance = clock or SystemClock(), sleep, chance
        self._client: tuple[int, httpx.Client] | None = None
        self._lock = threading.Lock()

    def post(self, path: str, content: Any, time_s: float) -> bytes:
        """The body of the answer; tries again for ``time_s``. Raises Unavailable and Refused."""
        body = msgspec.json.encode(content)
        deadline = self._clock.monotonic() + time_s
        for tried in range(1, TRIES_MAX + 1):
            try:
                return self._try(path, body, deadline)
            except _Waiting as waiting:
                pause_s = waiting.pause_s
                if pause_s is None:
                    step = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** (tried - 1))
                    pause_s = step * (0.5 + self._chance() / 2)
                if tried == TRIES_MAX or self._clock.monotonic() + pause_s >= deadline:
                    if waiting.text:
                        raise Refused(f"{waiting.why}, {tried} times") from None
                    raise self._unavailable(f"{waiting.why}; tried {tried} times") from None
            self._sleep(pause_s)
        raise AssertionError("the last try answers or raises")

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            held, self._client = self._client, None
        if held is not None and held[0] == os.getpid():
            held[1].close()

    def key(self) -> str | None:
        """What this endpoint may be given. Unavailable for what no header may hold."""
        name = self._key_variable
        key = os.environ.get(name, "").strip()
        if not key and (self.name.tls and self.name.host == OPENAI_HOST):
            name = OPENAI_KEY
            key = os.environ.get(name, "").strip()
        if not (key.isascii() and key.isprintable()):  # else the header's refusal would show it
            raise self._unavailable(f"{name} holds characters that no key has")
        return key or None

    def _try(self, path: str, body: bytes, deadline: float) -> bytes:
        import httpx

        left_s = min(self.request_s, max(0.001, deadline - self._clock.monotonic()))
        stop = self._clock.monotonic() + left_s
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key := self.key():
            headers["authorization"] = f"Bearer {key}"
        timeout = httpx.Timeout(left_s, connect=min(CONNECT_S, left_s))
        url = f"{self.name.base_url}/{path}"
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
            raise Refused(why)
        remedy = f"; set the key in {self._key_variable}" if status in (401, 403) else ""
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
                raise Refused(f"an answer of more than {ANSWER_BYTES_MAX:,} bytes")
        return bytes(body)

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
        return Unavailable(f"{self._what}: {why}", outcome="not_applied")


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
