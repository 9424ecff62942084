"""How often each agent recalled, by the namespace it searched: counted in memory, and put on record
now and then, as sums.

A RECALLED record holds the sums of those that changed since the one before, or of all: it is whole.
So what the newest whole one and those behind it say is what is known, and an opening reads no more
than about twice as many sums as there are. What was counted since the last record is lost with the
process: it is a statistic, and no reason to write at every recall.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from neverforget.storage.audit_index import AuditIndex
from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.log_state import Array, LogState, of_kinds
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_results import Namespace

# Pairs of namespace and agent; recalls of more than these are not counted. One record holds them.
PAIRS_MAX: Final = 100_000
PAIRS_BYTES_MAX: Final = 32 * 1024 * 1024
_WHOLE, _RECALLS = "whole", "recalls"
_SLACK: Final = 64  # sums that may be told twice, however few there are

Pair = tuple[Namespace, str]
_Sums = dict[Pair, tuple[int, int]]


class RecallCounts:
    """``positions``: of the RECALLED records. One thread owns it."""

    def __init__(self) -> None:
        self.positions = AuditIndex()
        self._sums: _Sums = {}  # how often, and when at last
        self._changed: dict[Pair, None] = {}  # since the last record
        self._told = 0  # sums in the newest whole record, and in those behind it
        self._n_bytes = 0  # that a record of all takes, at most

    @property
    def is_new(self) -> bool:
        """Whether there is anything to put on record."""
        return bool(self._changed)

    def count(self, namespace: Namespace, agent: str, at: int) -> None:
        pair = (namespace, agent)
        found = self._sums.get(pair)
        if found is None:
            too_long = self._n_bytes + _bytes_of(pair) > PAIRS_BYTES_MAX
            if too_long or len(self._sums) >= PAIRS_MAX:
                return
            found = (0, at)
        self._take({pair: (found[0] + 1, max(found[1], at))})
        self._changed[pair] = None

    def by_agent(self, scope: Namespace) -> dict[str, tuple[int, int]]:
        """At or below ``scope``: how often each one recalled, and when at last."""
        found: dict[str, tuple[int, int]] = {}
        for (namespace, agent), (count, at) in self._sums.items():
            if _within(namespace, scope):
                before = found.get(agent, (0, at))
                found[agent] = (before[0] + count, max(before[1], at))
        return found

    def names(self, namespace: Namespace) -> bool:
        """Whether anybody was counted at or below it."""
        return any(_within(pair[0], namespace) for pair in self._sums)

    # ---- records ---------------------------------------------------------------------------------

    def body(self) -> Body:
        """Of the next record."""
        whole = self._told + len(self._changed) > 2 * len(self._sums) + _SLACK
        return self._body(self._sums if whole else self._changed, whole)

    def body_without(self, namespace: Namespace) -> Body:
        """Of a whole record that names nothing at or below it."""
        return self._body([p for p in self._sums if not _within(p[0], namespace)], True)

    def _body(self, pairs: Iterable[Pair], whole: bool) -> Body:
        said = [[list(pair[0]), pair[1], *self._sums[pair]] for pair in pairs]
        return {M[MemoryField.DETAILS]: {_WHOLE: whole, _RECALLS: said}}

    def apply(self, position: int, body: Body) -> None:
        """A record was written. Raises TypeError, KeyError or ValueError for one that says nothing;
        nothing has changed then.
        """
        whole, sums = _said(body)
        self.positions.note(position)
        if whole:
            self._sums, self._told, self._n_bytes = {}, 0, 0
        self._take(sums)
        self._told += len(sums)
        self._changed = {}

    def find(self, heads: Array, positions: Array) -> None:
        """The records among these, of a log that is read from its beginning."""
        for position, _ in of_kinds(heads, positions, Kind.RECALLED):
            self.positions.note(position)

    def load(self, state: LogState) -> None:
        """From the records at ``positions``, back to the newest whole one."""
        found: list[_Sums] = []
        for position in reversed(list(self.positions.after(None))):
            if state.is_erased_at(position):
                continue
            try:
                whole, sums = _said(state.control(position)[1])
            except (Corrupt, KeyError, TypeError, ValueError) as error:
                lost = (
                    error if isinstance(error, Corrupt) else Corrupt(f"it says nothing: {error!r}")
                )
                state.control_lost(position, Kind.RECALLED, lost)
                continue
            found.append(sums)
            if whole:
                break
        for sums in reversed(found):
            self._take(sums)
            self._told += len(sums)

    def _take(self, sums: _Sums) -> None:
        self._n_bytes += sum(_bytes_of(pair) for pair in sums if pair not in self._sums)
        self._sums.update(sums)


def _said(body: Body) -> tuple[bool, _Sums]:
    details: dict[str, Any] = body[M[MemoryField.DETAILS]]
    sums: _Sums = {}
    for namespace, agent, count, at in details[_RECALLS]:
        if not isinstance(agent, str) or type(count) is not int or type(at) is not int:
            raise TypeError(f"a sum of {agent!r}, {count!r}, {at!r}")
        sums[tuple(namespace), agent] = (count, at)
    return bool(details[_WHOLE]), sums


def _bytes_of(pair: Pair) -> int:
    """In a record, at most."""
    return 40 + 4 * len(pair[1]) + sum(9 + 4 * len(name) for name in pair[0])


def _within(namespace: Namespace, scope: Namespace) -> bool:
    return namespace[: len(scope)] == tuple(scope)
