"""What commands are given as text, read into values: JSON, times, spans of time, contents."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from neverforget.runtime.turn_json import parse_timestamp
from neverforget.storage.errors import InvalidArgument, NotFound

BETWEEN = ".."


def json_argument(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} is not JSON: {error}") from None


def json_object(name: str, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    value = json_argument(name, text)
    if not isinstance(value, dict):
        raise InvalidArgument(f'{name} is no JSON object; give one such as {{"year": 2026}}')
    return value


def time_argument(text: str) -> datetime:
    """ISO 8601 (without a zone it is UTC), or a number as in ``parse_timestamp``."""
    try:
        return parse_timestamp(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def timeframe_argument(text: str | None) -> Any:
    """A phrase or date as it is; ``START..STOP`` as a pair, either side may be left out."""
    if text is None or BETWEEN not in text:
        return text
    start, _, stop = text.partition(BETWEEN)
    return tuple(time_argument(side.strip()) if side.strip() else None for side in (start, stop))


def text_argument(text: str | None, file: str | None) -> str:
    """The text of a memory: as given, from standard input ("-"), or from a file."""
    found = optional_text(text, file)
    if found is None:
        raise InvalidArgument('there is no text; give it, or "-" to read it, or --file FILE')
    return found


def optional_text(text: str | None, file: str | None) -> str | None:
    if file is None:
        return sys.stdin.read() if text == "-" else text
    if text is not None:
        raise InvalidArgument("give the text or --file FILE, not both")
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}; check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidArgument(f"{file} cannot be read: {reason}") from None
