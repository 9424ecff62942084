"""Between what a caller says of a memory and the body of its record. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from neverforget.storage.content import encode_body, plain_content
from neverforget.storage.control import Body
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_checks import (
    check_confidence,
    check_importance,
    check_name,
    check_tags,
    check_text,
    check_time,
    check_type,
    check_validity,
    plain_metadata,
    unique,
)
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_results import Changes, MemoryFilter, NewMemory
from neverforget.storage.type_names import a_type

# What a memory says. Its tags are compared apart; namespace and key are where it stands.
_SAID = (
    MemoryField.TEXT,
    MemoryField.TYPE,
    MemoryField.IMPORTANCE,
    MemoryField.CONFIDENCE,
    MemoryField.SOURCE,
    MemoryField.AGENT,
    MemoryField.SPEAKER,
    MemoryField.METADATA,
    MemoryField.OCCURRED_AT,
    MemoryField.CONTEXT,
    MemoryField.VALID_FROM,
    MemoryField.VALID_TO,
)
_CONTENT = (*_SAID, MemoryField.TAGS, MemoryField.NAMESPACE, MemoryField.KEY)
_OPTIONAL = ("source", "agent", "speaker")
_TIMES = ("occurred_at", "valid_from", "valid_to")


def body_of_new(new: NewMemory, by: str) -> Body:
    """Of a NewMemory that passed ``check_new``. What is absent is None, (), {} or version 1."""
    body: Body = {
        M[MemoryField.TEXT]: new.text,
        M[MemoryField.TYPE]: new.type,
        M[MemoryField.IMPORTANCE]: float(new.importance),
        M[MemoryField.CONFIDENCE]: float(new.confidence),
        M[MemoryField.BY]: by,
    }
    optional = (
        (MemoryField.KEY, new.key),
        (MemoryField.SOURCE, new.source),
        (MemoryField.AGENT, new.agent),
        (MemoryField.SPEAKER, new.speaker),
        (MemoryField.OCCURRED_AT, new.occurred_at),
        (MemoryField.CONTEXT, new.context),
        (MemoryField.VALID_FROM, new.valid_from),
        (MemoryField.VALID_TO, new.valid_to),
    )
    for field, value in optional:
        if value is not None:
            body[M[field]] = value
    if new.tags:
        body[M[MemoryField.TAGS]] = list(unique(new.tags))
    if new.namespace:
        body[M[MemoryField.NAMESPACE]] = list(new.namespace)
    if new.metadata:
        body[M[MemoryField.METADATA]] = plain_metadata(new.metadata)
    return body


def content_of(body: Body) -> Body:
    """What a later version takes over: not who wrote this one, when, or after which."""
    return {M[field]: body[M[field]] for field in _CONTENT if M[field] in body}


def said_in(body: Body, *, whoever: bool = False) -> bytes:
    """Equal for two bodies that say the same: True, 1 and 1.0 are three values in metadata.
    ``whoever``: by which agent does not count.
    """
    fields = [f for f in _SAID if not (whoever and f == MemoryField.AGENT)]
    return encode_body({M[field]: body[M[field]] for field in fields if M[field] in body})


def check_changes(changes: Changes) -> dict[MemoryField, Any]:
    """The fields that change. Raises InvalidArgument, also when there is none."""
    asked = {n: v for n in changes.__struct_fields__ if (v := getattr(changes, n)) is not UNSET}
    if not asked:
        raise InvalidArgument("a revision without changes; name what is new")
    checks: dict[str, Callable[[Any], None]] = {
        "type": check_type,
        "importance": check_importance,
        "confidence": check_confidence,
        "tags": check_tags,
    }
    changed: dict[MemoryField, Any] = {}
    for name, value in asked.items():
        if name == "text":
            check_text(value, "text")
        elif name in checks:
            checks[name](value)
        elif name in _OPTIONAL and value is not None:
            check_name(value, name)
        elif name in _TIMES:
            check_time(value, name)
        elif name == "context" and not isinstance(value, (str, type(None))):
            raise InvalidArgument(f"context is {a_type(value)}; pass text")
        changed[MemoryField[name.upper()]] = _stored(name, value)
    return changed


def _stored(name: str, value: Any) -> Any:
    if name == "metadata":
        return plain_metadata(value) or None
    if name == "tags":
        return list(unique(value)) or None
    if name in ("importance", "confidence"):
        return float(value)
    return value


def changed_content(content: Body, changed: dict[MemoryField, Any]) -> Body:
    """``content`` with its changes; a field that becomes None goes. Raises InvalidArgument."""
    made = dict(content)
    for field, value in changed.items():
        if value is None:
            made.pop(M[field], None)
        else:
            made[M[field]] = value
    check_validity(made.get(M[MemoryField.VALID_FROM]), made.get(M[MemoryField.VALID_TO]))
    return made


def plain_filter(wanted: MemoryFilter) -> dict[str, Any]:
    """What is asked for, as an audit entry keeps it. Raises InvalidArgument."""
    said = {
        name: value
        for name in wanted.__struct_fields__
        if name not in ("status", "derived")
        if (value := getattr(wanted, name)) not in (None, (), {})
    }
    plain = plain_content(_lists(said), "the filter")
    assert isinstance(plain, dict)
    return plain


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_lists(each) for each in value]
    return value
