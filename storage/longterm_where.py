"""``where``: conditions on what only a memory's record has. Pure, and without numpy: clients check
with it what they send.

A missing field neither raises nor matches; numbers are compared as numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from neverforget.storage.control import Body
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_fields import M, MemoryField

Test = Callable[[Any], bool]

_FIELDS = {
    "importance": M[MemoryField.IMPORTANCE],
    "confidence": M[MemoryField.CONFIDENCE],
    "source": M[MemoryField.SOURCE],
    "speaker": M[MemoryField.SPEAKER],
    "key": M[MemoryField.KEY],
}
_METADATA = "metadata."
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_MISSING = object()


class Where:
    """A compiled ``where``. Raises InvalidArgument for what no memory could answer."""

    def __init__(self, conditions: dict[str, Any]) -> None:
        self._tests = [(path, _test_of(asked)) for path, asked in conditions.items()]
        for path, _ in self._tests:
            if path not in _FIELDS and (not path.startswith(_METADATA) or path == _METADATA):
                raise InvalidArgument(
                    f"where names {path!r}; name metadata.<path>, or one of {', '.join(_FIELDS)}"
                )

    @property
    def fields(self) -> frozenset[int]:
        """Of a body: all that it looks at."""
        metadata = M[MemoryField.METADATA]
        return frozenset(_FIELDS.get(path, metadata) for path, _ in self._tests)

    def matches(self, body: Body) -> bool:
        for path, tests in self._tests:
            value = _value_at(body, path)
            if value is _MISSING or not all(test(value) for test in tests):
                return False
        return True


def _value_at(body: Body, path: str) -> Any:
    field = _FIELDS.get(path)
    if field is not None:
        value = body.get(field, _MISSING)
        return _MISSING if value is None else value
    return _descend(body.get(M[MemoryField.METADATA], {}), path.removeprefix(_METADATA))


def _descend(value: Any, path: str) -> Any:
    """A key that holds dots itself comes before the path it looks like."""
    if not isinstance(value, dict):
        return _MISSING
    if path in value:
        return value[path]
    head, dot, rest = path.partition(".")
    while dot:
        if head in value:
            return _descend(value[head], rest)
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return _MISSING


def _test_of(asked: Any) -> list[Test]:
    if not isinstance(asked, dict) or not any(str(k).startswith("$") for k in asked):
        return [lambda value: same(value, asked)]
    return [_operator_test(name, operand) for name, operand in asked.items()]


def _operator_test(name: str, operand: Any) -> Test:
    if name in _ORDERED:
        compare = _ORDERED[name]
        if not _is_number(operand) and not isinstance(operand, str):
            raise InvalidArgument(f"{name} compares with a number or text, not {operand!r}")
        return lambda value: _comparable(value, operand) and compare(value, operand)
    if name == "$eq":
        return lambda value: same(value, operand)
    if name == "$ne":
        return lambda value: not same(value, operand)
    if name in ("$in", "$nin"):
        if not isinstance(operand, (list, tuple)):
            raise InvalidArgument(f"{name} takes a list, not {operand!r}")
        inside = name == "$in"
        return lambda value: any(same(value, each) for each in operand) is inside
    raise InvalidArgument(f"{name!r} is no operator; $eq $ne $gt $gte $lt $lte $in $nin are")


def same(value: Any, asked: Any) -> bool:
    """Equal as JSON is: 1 is 1.0, but True is no number, and text is no number."""
    if isinstance(value, bool) or isinstance(asked, bool):
        return value is asked
    if _is_number(value) and _is_number(asked):
        return bool(value == asked)
    if isinstance(value, list) and isinstance(asked, (list, tuple)):
        return len(value) == len(asked) and all(map(same, value, asked))
    if isinstance(value, dict) and isinstance(asked, dict):
        return value.keys() == asked.keys() and all(same(value[k], asked[k]) for k in value)
    return type(value) is type(asked) and bool(value == asked)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _comparable(value: Any, operand: Any) -> bool:
    if isinstance(operand, str):
        return isinstance(value, str)
    return _is_number(value)
