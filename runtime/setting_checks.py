"""Whether a value may be one of a setting. Each check raises InvalidArgument with its name."""

from __future__ import annotations

import math
import zoneinfo
from collections.abc import Callable
from typing import Literal

from neverforget.runtime import embedders, extractors, summarizers
from neverforget.runtime.object_checks import OBJECT
from neverforget.storage.errors import InvalidArgument

SyncLevel = Literal["disk", "process", "replica"]
NAME_CHARACTERS_MAX = 512
SYNC_LEVELS: tuple[SyncLevel, ...] = ("disk", "process", "replica")


def whole(low: int, high: int) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if type(value) is not int or not low <= value <= high:
            raise InvalidArgument(
                f"{name} must be a whole number from {low:,} to {high:,}, not {value!r}"
            )

    return check


def one_of(choices: tuple[str, ...]) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in choices:
            raise InvalidArgument(
                f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}"
            )

    return check


def check_sync(name: str, value: object) -> None:
    if value not in SYNC_LEVELS:
        raise InvalidArgument(
            f"{name} must be {' or '.join(map(repr, SYNC_LEVELS))}, not {value!r}"
        )


REPLICA_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "file")


def check_replica(name: str, value: object) -> None:
    """None, or the URL of a bucket or a folder."""
    if value is None:
        return
    scheme, divided, rest = value.partition("://") if isinstance(value, str) else ("", "", "")
    known = divided and scheme in REPLICA_SCHEMES and rest.isprintable()
    if not known or (scheme == "file" and not rest.startswith("/")):
        raise InvalidArgument(
            f"{name} must be s3://BUCKET[/PREFIX], gs://..., az://... or file:///FOLDER, "
            f"not {value!r}"
        )


def check_seconds(name: str, value: object) -> None:
    """A number of seconds above zero."""
    if not _is_number(value) or not value > 0:  # type: ignore[operator]
        raise InvalidArgument(f"{name} must be a number of seconds above 0, not {value!r}")


def check_seconds_or_zero(name: str, value: object) -> None:
    """A number of seconds, or 0: to look once, or never."""
    if not _is_number(value) or not value >= 0:  # type: ignore[operator]
        raise InvalidArgument(f"{name} must be a number of seconds from 0 on, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_weight(name: str, value: object) -> None:
    """How much something counts: from 0 on."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not 0 <= value < math.inf:  # type: ignore[operator]
        raise InvalidArgument(f"{name} must be a number from 0 on, not {value!r}")


def check_zone(name: str, value: object) -> None:
    """A zone of the IANA database, as "Europe/Berlin"."""
    try:
        if isinstance(value, str) and value:
            zoneinfo.ZoneInfo(value)
            return
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidArgument(
        f'{name} must be the name of a time zone, as "UTC" or "Europe/Berlin", not {value!r}'
    )


def check_embedder(name: str, value: object) -> None:
    """A name, an object with the protocol, or what a store keeps of such an object."""
    if isinstance(value, str) and value.startswith(OBJECT):
        if len(value) > len(OBJECT):
            return
        raise InvalidArgument(f"{name}={value!r} names no object")
    embedders.check(value)


def check_summarizer(name: str, value: object) -> None:
    """A name, an object with the protocol, or what a store keeps of such an object."""
    _check_kept(name, summarizers.stored_name(value), "summarizer_id")


def check_extractor(name: str, value: object) -> None:
    """The same of an extractor."""
    _check_kept(name, extractors.stored_name(value), "extractor_id")


def _check_kept(name: str, kept: str, id: str) -> None:
    if not kept.isprintable() or len(kept) > NAME_CHARACTERS_MAX:
        raise InvalidArgument(
            f"{name}: {id} is printable text of up to {NAME_CHARACTERS_MAX} characters"
        )
