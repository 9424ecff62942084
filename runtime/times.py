"""Times as they come in and go out: any aware form in, aware UTC datetimes out.

Records hold microseconds since 1970 as whole numbers; no float is ever on the way. Naive datetimes
are refused: taken for UTC they would be wrong by the local offset, silently.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from neverforget.runtime.values import EPOCH
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.type_names import a_type

Moment = datetime | str | int
_MICROSECOND = timedelta(microseconds=1)


def to_us(value: Any, where: str) -> int:
    """Microseconds since 1970 UTC of an aware datetime, ISO 8601 text with an offset or "Z", or a
    whole number of milliseconds since 1970. InvalidArgument for anything else.
    """
    if isinstance(value, datetime):
        at = value
    elif isinstance(value, str):
        try:
            at = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidArgument(
                f"{where} is {value[:60]!r}; pass ISO 8601 such as 2026-11-30T08:04:00+01:00"
            ) from None
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            at = EPOCH + timedelta(milliseconds=value)
        except OverflowError:
            raise InvalidArgument(
                f"{where} is {value}, outside the years 1 to 9999; a whole number is milliseconds "
                "since 1970"
            ) from None
    else:
        raise InvalidArgument(
            f"{where} is {value!r}, {a_type(value)}; pass an aware datetime, ISO 8601 "
            "text with an offset, or whole milliseconds since 1970"
        )
    if at.utcoffset() is None:
        raise InvalidArgument(
            f"{where} is {value!r}, without a time zone; say which one, e.g. "
            "datetime.now(timezone.utc)"
        )
    us = (at - EPOCH) // _MICROSECOND
    if not US_MIN <= us <= US_MAX:
        raise InvalidArgument(f"{where} is {value!r}, in UTC outside the years 1 to 9999")
    return us


def from_us(us: int) -> datetime:
    """Aware UTC; exact. What lies outside the years 1 to 9999 becomes their edge."""
    try:
        return EPOCH + timedelta(0, 0, us)
    except OverflowError:
        return FIRST if us < 0 else LAST


FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
US_MIN = (FIRST - EPOCH) // _MICROSECOND
US_MAX = (LAST - EPOCH) // _MICROSECOND
