"""What may be remembered, said of it, and asked for. Pure; every refusal is InvalidArgument."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from neverforget.storage.content import plain_content
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_fields import is_derived_type
from neverforget.storage.longterm_results import NewMemory, TurnPoint
from neverforget.storage.type_names import a_type

TAG_LEVELS_MAX = 4
NAME_BYTES_MAX = 64 * 1024
IMPORTANCE_MAX = 10.0
CONFIDENCE_MAX = 1.0
_TAG = re.compile(r"[a-z0-9-]+(?::[a-z0-9-]+)*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_I64 = 2**63


def check_new(new: NewMemory) -> NewMemory:
    """Everything but its id and relations, which the writer looks at."""
    check_text(new.text, "text")
    if new.key is not None:
        check_name(new.key, "key")
    check_type(new.type)
    check_tags(new.tags)
    check_importance(new.importance)
    check_confidence(new.confidence)
    for name in ("source", "agent", "speaker"):
        value = getattr(new, name)
        if value is not None:
            check_name(value, name)
    if new.context is not None and not isinstance(new.context, str):
        raise InvalidArgument(f"context is {a_type(new.context)}; pass text")
    check_namespace(new.namespace)
    for name in ("occurred_at", "valid_from", "valid_to"):
        check_time(getattr(new, name), name)
    check_validity(new.valid_from, new.valid_to)
    return new


def check_text(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise InvalidArgument(f"{where} is {a_type(text)}; pass text")
    if not text.strip():
        raise InvalidArgument(f"{where} is empty; there is nothing to remember")


def check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{where} is {name!r}; pass some text")
    if len(name) > NAME_BYTES_MAX:
        raise InvalidArgument(f"a {where} of {len(name):,} characters; shorten it")


def check_namespace(namespace: tuple[str, ...]) -> None:
    for element in namespace:
        check_name(element, "an element of the namespace")


def check_type(name: object, *, derived: bool = False) -> None:
    check_name(name, "type")
    if _CONTROL.search(str(name)):
        raise InvalidArgument(
            f"type {name!r}: a line break or other control character; leave it out"
        )
    if not derived and is_derived_type(str(name)):
        raise InvalidArgument(f"type {name!r}: the endings -chunk and -summary are reserved")


def check_tags(tags: Iterable[str]) -> None:
    if isinstance(tags, str):
        raise InvalidArgument(f"tags is the text {tags!r}; pass a tuple of them")
    for tag in tags:
        if not isinstance(tag, str) or _TAG.fullmatch(tag) is None:
            raise InvalidArgument(
                f"tag {tag!r}: lower-case letters, digits and hyphens, levels parted by ':'"
            )
        if tag.count(":") >= TAG_LEVELS_MAX:
            raise InvalidArgument(f"tag {tag!r} has more than {TAG_LEVELS_MAX} levels")


def check_importance(value: object) -> None:
    _check_scale(value, "importance", IMPORTANCE_MAX)


def check_confidence(value: object) -> None:
    _check_scale(value, "confidence", CONFIDENCE_MAX)


def check_weight(value: object) -> None:
    if not _is_number(value) or not math.isfinite(value):  # type: ignore[arg-type]
        raise InvalidArgument(f"a weight of {value!r}; pass a finite number")


def _check_scale(value: object, name: str, top: float) -> None:
    # NaN is neither: every comparison with it is false.
    if not _is_number(value) or not 0 <= value <= top:  # type: ignore[operator]
        raise InvalidArgument(f"{name} is {value!r}; pass a number from 0 to {top:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_time(value: object, name: str) -> None:
    if value is None:
        return
    # The lowest two numbers stand for "none" and "always" in the table.
    if type(value) is not int or not -_I64 + 2 <= value < _I64 - 1:
        raise InvalidArgument(f"{name} is {value!r}; pass microseconds within 64 bits")


def check_validity(valid_from: int | None, valid_to: int | None) -> None:
    if valid_from is not None and valid_to is not None and valid_to < valid_from:
        raise InvalidArgument("valid_to lies before valid_from")


def plain_metadata(metadata: object) -> dict[str, Any]:
    """A copy of plain values. InvalidArgument names the path of what cannot be kept."""
    if not isinstance(metadata, Mapping):
        raise InvalidArgument(f"metadata is {a_type(metadata)}; pass a dict")
    found = plain_content(dict(metadata), "metadata")
    assert isinstance(found, dict)
    return found


def check_turns(target: TurnPoint) -> None:
    check_namespace(target.namespace)
    check_name(target.session, "a session's name")
    if not 0 <= target.first <= target.last:
        raise InvalidArgument(f"turns {target.first}..{target.last} are no range")


def unique(tags: Iterable[str]) -> tuple[str, ...]:
    """In the order given, each once."""
    return tuple(dict.fromkeys(tags))
