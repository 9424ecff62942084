"""One turn as one line of JSON and back: what ``export`` writes, ``import`` reads and ``--json``
prints.

JSON cannot say everything that a turn can hold. What it cannot say stands as an object with a
single key that begins with ``$``, and the line is then marked ``"escaped": true``:

    {"$bytes": base64}          bytes
    {"$text": base64}           text in which two lone surrogates would read back as one character
    {"$float": "nan"}           nan, inf, -inf
    {"$int": "0x1f…"}           integers beyond 64 bits
    {"$pairs": [[key, value]]}  an object whose keys could be taken for one of these

Lines without the mark are taken as they stand, so nobody else's ``$`` keys are ever interpreted.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_INT_MAX = 2**63


class TurnLike(Protocol):
    """The fields of ``neverforget.Turn`` that a line holds."""

    @property
    def namespace(self) -> tuple[str, ...]: ...
    @property
    def session(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def content(self) -> Any: ...
    @property
    def name(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...
    @property
    def call_id(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def timestamp(self) -> datetime: ...
    @property
    def token_count(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def salvaged_from(self) -> tuple[int, int] | None: ...


def turn_object(turn: TurnLike) -> dict[str, Any]:
    """``turn`` as an object that ``json`` can write. What is None or empty is left out, content
    excepted."""
    fields: dict[str, Any] = {
        "namespace": list(turn.namespace) or None,
        "session": turn.session,
        "seq": turn.seq,
        "role": turn.role,
        "name": turn.name,
        "agent": turn.agent,
        "content": turn.content,
        "call_id": turn.call_id,
        "key": turn.key,
        "metadata": dict(turn.metadata) or None,
        "timestamp": format_timestamp(turn.timestamp),
        "token_count": turn.token_count,
        "state": str(turn.state) if turn.state != "ok" else None,
        "salvaged_from": None if turn.salvaged_from is None else list(turn.salvaged_from),
    }
    return escaped_object(fields, always=("content",))


def escaped_object(fields: Mapping[str, Any], *, always: tuple[str, ...] = ()) -> dict[str, Any]:
    """``fields`` without those that are None (``always``: they stay), marked if anything in them is
    escaped."""
    escape = _Escape()
    line = {
        name: escape(value) for name, value in fields.items() if value is not None or name in always
    }
    if escape.used:
        line["escaped"] = True
    return line


def turn_line(turn: TurnLike) -> bytes:
    """``turn`` as one line of UTF-8 with its newline."""
    return dump_line(turn_object(turn))


def dump_line(value: Any) -> bytes:
    """Compact UTF-8; only a line that holds a lone surrogate is written in ASCII with escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, separators=(", ", ": ")).encode() + b"\n"


def json_value(value: Any) -> Any:
    """``value`` as ``json`` can write it, escaped where it must be. Equal values give equal
    results."""
    return _Escape()(value)


class _Escape:
    def __init__(self) -> None:
        self.used = False

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mark({"$text": _base64(_bytes(value))}) if _PAIR.search(value) else value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_INT_MAX <= value < _INT_MAX else self._mark({"$int": hex(value)})
        if isinstance(value, float):
            return value if math.isfinite(value) else self._mark({"$float": repr(value)})
        if isinstance(value, bytes):
            return self._mark({"$bytes": _base64(value)})
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        if isinstance(value, Mapping):
            alike = len(value) == 1 and next(iter(value)).startswith("$")
            if alike or any(_PAIR.search(key) for key in value):
                return self._mark({"$pairs": [[self(k), self(v)] for k, v in value.items()]})
            return {key: self(item) for key, item in value.items()}
        raise TypeError(f"a line of JSON cannot hold {type(value).__name__}")

    def _mark(self, value: dict[str, Any]) -> dict[str, Any]:
        self.used = True
        return value


def unescape(value: Any) -> Any:
    """The inverse of the escaping above, for a line that is marked. ValueError for one that is
    malformed."""
    if isinstance(value, list):
        return [unescape(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, item),) = value.items()
        if key in _UNESCAPE:
            try:
                return _UNESCAPE[key](item)
            except (TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"{key} holds something that cannot be read: {error}") from None
    return {key: unescape(item) for key, item in value.items()}


_UNESCAPE: dict[str, Callable[[Any], Any]] = {
    "$bytes": lambda item: base64.b64decode(item, validate=True),
    "$text": lambda item: base64.b64decode(item, validate=True).decode("utf-8", "surrogatepass"),
    "$float": float,
    "$int": lambda item: int(item, 16),
    "$pairs": lambda item: {unescape(key): unescape(value) for key, value in item},
}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def format_timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with microseconds as far as there are any: 2026-03-02T08:04:00Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_timestamp(value: Any) -> datetime:
    """ISO 8601 (a missing zone is UTC), or a number: seconds since 1970, milliseconds from 1e11 on,
    microseconds from 1e14 on. ValueError for anything else."""
    if isinstance(value, str):
        text = value.strip()
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"timestamp {text[:40]!r} is not ISO 8601") from None
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"timestamp {value!r} is neither text nor a number")
    scale = 1 if abs(value) < 1e11 else 1_000 if abs(value) < 1e14 else 1_000_000
    # Integer microseconds: a float of seconds since 1970 has more digits than a microsecond needs.
    micro = value * 1_000_000 // scale if isinstance(value, int) else round(value / scale * 1e6)
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micro)
    except OverflowError:
        raise ValueError(f"timestamp {value!r} lies outside the years 1 to 9999") from None
