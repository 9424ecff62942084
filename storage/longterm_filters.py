"""Which memories a filter means: columns first, then metadata, which only their records have.

Everything in a filter must hold. Nothing here raises for what a memory lacks: it just does not
match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.longterm_checks import check_tags
from neverforget.storage.longterm_fields import M, MemoryField, is_derived_type
from neverforget.storage.longterm_results import STATUS_CODES, MemoryFilter, Namespace, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import NEVER, Array, Interned

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


def is_empty(wanted: MemoryFilter) -> bool:
    """Whether nothing but the status narrows it: what may not be deleted by."""
    narrowed = (wanted.types, wanted.tags, wanted.agent, wanted.where, wanted.older_than)
    return (
        not wanted.namespace
        and wanted.timeframe is None
        and wanted.as_of is None
        and all(part is None or part in ((), {}) for part in narrowed)
    )


def matching(state: LongTermState, wanted: MemoryFilter) -> Array:
    """Rows, ascending, that match in every column; ``where`` is not looked at."""
    return np.flatnonzero(column_mask(state.table, wanted))


class Columns(Protocol):
    """The memory table, or what it was at some moment."""

    @property
    def types(self) -> Interned[str]: ...
    @property
    def namespaces(self) -> Interned[Namespace]: ...
    @property
    def agents(self) -> Interned[str | None]: ...
    @property
    def tags(self) -> Interned[tuple[str, ...]]: ...
    def column(self, name: str) -> Array: ...


def column_mask(table: Columns, wanted: MemoryFilter) -> Array:
    """One truth value a row, all of ``wanted`` but ``where``."""
    mask = _status_mask(table, wanted.status)
    if not wanted.derived:
        plain = np.array([not is_derived_type(name) for name in table.types.values], np.bool_)
        mask &= plain[table.column("type")]
    if wanted.types is not None:
        asked = np.array([name in wanted.types for name in table.types.values], np.bool_)
        mask &= asked[table.column("type")]
    if wanted.namespace:
        inside = [within(n, wanted.namespace) for n in table.namespaces.values]
        mask &= np.array(inside, np.bool_)[table.column("namespace")]
    if wanted.tags:
        check_tags(wanted.tags)
        tagged = [has_tags(held, wanted.tags) for held in table.tags.values]
        mask &= np.array(tagged, np.bool_)[table.column("tags")]
    if wanted.agent is not None:
        code = table.agents.known(wanted.agent)
        mask &= False if code is None else table.column("agent") == code
    return _time_mask(table, wanted, mask)


def _status_mask(table: Columns, status: str | None) -> Array:
    held = table.column("status")
    if status is None:
        found: Array = held != Status.GONE
        return found
    code = STATUS_CODES.get(status)
    if code is None:
        raise InvalidArgument(f"status {status!r}: one of {', '.join(STATUS_CODES)}, or None")
    found = held == code
    return found


def _time_mask(table: Columns, wanted: MemoryFilter, mask: Array) -> Array:
    created = table.column("created_at")
    if wanted.older_than is not None:
        mask &= created < wanted.older_than
    if wanted.timeframe is not None:
        start, stop = wanted.timeframe
        occurred = table.column("occurred_at")
        when = np.where(occurred == NEVER, created, occurred)
        if start is not None:
            mask &= when >= start
        if stop is not None:
            mask &= when < stop
    if wanted.as_of is not None:
        mask &= table.column("valid_from") <= wanted.as_of
        mask &= table.column("valid_to") > wanted.as_of
    return mask


def within(namespace: Namespace, prefix: Namespace) -> bool:
    """Element by element: ("acme",) holds ("acme", "x") and not ("acme-corp",)."""
    return namespace[: len(prefix)] == tuple(prefix)


def has_tags(held: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Each wanted one, or one below it."""
    return all(any(t == w or t.startswith(w + ":") for t in held) for w in wanted)


# ---- metadata ------------------------------------------------------------------------------------


class Where:
    """A compiled ``where``. Raises InvalidArgument for what no memory could answer."""

    def __init__(self, conditions: dict[str, Any]) -> None:
        self._tests = [(path, _test_of(asked)) for path, asked in conditions.items()]
        for path, _ in self._tests:
            if path not in _FIELDS and (not path.startswith(_METADATA) or path == _METADATA):
                raise InvalidArgument(
                    f"where names {path!r}; name metadata.<path>, or one of {', '.join(_FIELDS)}"
                )

    def matches(self, body: Body) -> bool:
        for path, tests in self._tests:
            value = _value_at(body, path)
            if value is _MISSING or not all(test(value) for test in tests):
                return False
        return True


def rows_where(state: LongTermState, rows: Array, where: Where | None) -> Iterator[int]:
    """Those of ``rows``, in their order, whose records match. Unreadable ones do not."""
    if where is None:
        yield from rows.tolist()
        return
    positions = state.table.column("position")
    for row in rows.tolist():
        try:
            _, body = state.bodies.read(int(positions[row]))
        except Corrupt:
            continue
        if where.matches(body):
            yield row


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
