"""What a turn may hold: text, bytes, and JSON-like data that comes back equal. Pure, no I/O.

Text with lone surrogates ("x\\ud83dy", which JavaScript and broken exports produce) has no UTF-8
form; it is kept as a private CBOR tag over its "surrogatepass" bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cbor2

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import SURROGATE_TAG, BodyField
from neverforget.storage.type_names import a_type

# cbor2 reads back 400 nested containers; the body's own map is one of them, the metadata's or
# content's are the rest.
NESTING_MAX = 399

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def plain_content(value: Any, where: str, depth: int = 1) -> Any:
    """``value`` with every subclass of a plain type made plain. InvalidArgument names the path of
    what cannot be kept.

    The result is a new structure: what the caller changes afterwards does not change what is
    written."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or kind is dict:
        return _containers(value, where)
    if isinstance(value, (list, dict)):
        return _containers(dict(value) if isinstance(value, dict) else list(value), where)
    return _scalar_subclass(value, where)


def _containers(root: Any, where: str) -> Any:
    """Depth first without recursion: a caller deep in its own stack gets InvalidArgument, not
    RecursionError."""
    top: list[Any] = [None]
    pending: list[tuple[Any, str, int, Any, Any]] = [(root, where, 1, top, 0)]
    while pending:
        value, path, depth, parent, slot = pending.pop()
        if depth > NESTING_MAX:
            raise InvalidArgument(
                f"{where} is nested more than {NESTING_MAX} deep; it could not be read back"
            )
        made: Any
        if isinstance(value, dict):
            made = {}
            for key, child in value.items():
                if type(key) is not str:
                    key = _key(key, path)
                made[key] = child
                if type(child) not in _SCALARS:
                    child_path = f"{path}.{key}"
                    if isinstance(child, (list, dict)):
                        pending.append((child, child_path, depth + 1, made, key))
                    else:
                        made[key] = _scalar_subclass(child, child_path)
        else:
            made = list(value)
            for index, child in enumerate(made):
                if type(child) not in _SCALARS:
                    child_path = f"{path}[{index}]"
                    if isinstance(child, (list, dict)):
                        pending.append((child, child_path, depth + 1, made, index))
                    else:
                        made[index] = _scalar_subclass(child, child_path)
        parent[slot] = made
    return top[0]


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise InvalidArgument(f"{path} has the key {key!r}, {a_type(key)}; keys must be text")


def _scalar_subclass(value: Any, path: str) -> Any:
    """An enum member that is a str, a numpy float that is a float: equal to the plain value it
    becomes."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise InvalidArgument(
        f"{path} is {a_type(value)}; content is text, bytes, numbers, "
        "booleans, None, lists, and dicts with text keys"
    )


def plain_text(value: Any) -> Any:
    """``value`` with every text that has lone surrogates replaced by its tag. For what UTF-8
    refused."""
    if type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            return cbor2.CBORTag(SURROGATE_TAG, value.encode("utf-8", "surrogatepass"))
        return value
    if type(value) is dict:
        return {plain_text(k): plain_text(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return [plain_text(item) for item in value]
    return value


def text_from_tag(tag: cbor2.CBORTag, _immutable: bool) -> Any:
    """The other way round, for cbor2's ``tag_hook`` (cbor2 6: the tag, and whether it stands in a
    map's key)."""
    if tag.tag == SURROGATE_TAG and type(tag.value) is bytes:
        return tag.value.decode("utf-8", "surrogatepass")
    raise ValueError(f"unknown CBOR tag {tag.tag}")


def encode_body(body: Mapping[Any, Any]) -> bytes:
    """CBOR of a body made of plain values. Text with lone surrogates becomes the private tag over
    its bytes."""
    try:
        return cbor2.dumps(body)
    except UnicodeEncodeError:
        return cbor2.dumps(plain_text(body))


def decode_body(body: bytes | bytearray | memoryview) -> dict[Any, Any]:
    """The map that ``encode_body`` wrote. Raises Corrupt when the bytes are not one."""
    try:
        found = cbor2.loads(body, tag_hook=text_from_tag)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Corrupt(f"a record's body is not the CBOR it should be: {error}") from error
    if type(found) is not dict:
        raise Corrupt(f"a record's body is a {type(found).__name__}, not a map")
    return found


_CONTENT, _METADATA = int(BodyField.CONTENT), int(BodyField.METADATA)
_TEXTS = frozenset(map(int, BodyField)) - {_CONTENT, _METADATA}


def decode_turn_body(body: bytes | bytearray | memoryview) -> dict[Any, Any] | None:
    """A turn's body, None when it is not one: broken CBOR, or values that ``append`` refuses, such
    as what cbor2 makes of tags (patterns, decimals, dates)."""
    try:
        found = decode_body(body)
    except Corrupt:
        return None
    for field, value in found.items():
        kind = type(value)
        if field == _CONTENT:
            sound = kind in _SCALARS or _is_plain(value)
        elif field == _METADATA:
            sound = kind is dict and _is_plain(value)
        else:
            sound = kind is str or field not in _TEXTS  # others are of a newer version
        if not sound:
            return None
    return found


def _is_plain(root: Any) -> bool:
    pending = [root]
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is dict:
            if any(type(key) is not str for key in value):
                return False
            pending.extend(child for child in value.values() if type(child) not in _SCALARS)
        elif kind is list:
            pending.extend(child for child in value if type(child) not in _SCALARS)
        else:
            return False
    return True
