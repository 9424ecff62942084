"""What is known of every memory without its texts: numpy columns that grow, one row a memory.

About 125 bytes a memory, whatever it says: the texts are read from the log at ``position`` (or from
a generation made of it). Namespaces, types, agents and sets of tags are kept once and stand as
codes. A row is never taken away while the region is open, so a row number is good for a session of
work; ``born`` (the position of the memory's first record) is good for ever and rises with the row.

One thread changes it. Others may read columns taken with ``column``: a column is never moved under
them, growth makes a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.longterm_fields import (
    ID_BYTES,
    Id,
    check_packed,
    pack_ids,
    unpack_ids,
)
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.row_index import RowIndex

Array = NDArray[Any]
Code = TypeVar("Code")

NEVER = -(2**63)  # no occurred_at; valid since ever
FOR_EVER = 2**63 - 1  # valid for ever
NO_ROW = 0xFFFFFFFF

COLUMNS: dict[str, type[np.generic]] = {
    "high": np.uint64,  # the id, in the three parts that headers hold
    "middle": np.uint32,
    "low": np.uint32,
    "born": np.uint64,  # position of its first record
    "position": np.uint64,  # of the record of its current version
    "version": np.uint32,
    "status": np.uint8,
    "before": np.uint8,  # status that forgetting took away
    "readable": np.bool_,  # its current record passed its checksum
    "has_context": np.bool_,
    "created_at": np.int64,
    "occurred_at": np.int64,
    "valid_from": np.int64,
    "valid_to": np.int64,
    "importance": np.float32,
    "type": np.uint32,
    "namespace": np.uint32,
    "agent": np.uint32,  # code 0: none
    "speaker": np.uint32,  # alike
    "tags": np.uint32,  # code of the whole set
    "key": np.uint64,  # hash of namespace and key, 0: none
    "forgotten_in": np.uint64,  # position of the FORGOTTEN record
    "original": np.uint32,  # row of the memory this is a chunk or summary of, NO_ROW: none
    "characters": np.uint32,  # of its text
}
FIXED = ("high", "middle", "low", "born")  # never change once a row is there
_PACKED_ID = np.dtype([("high", ">u8"), ("middle", ">u4"), ("low", ">u4")])
assert _PACKED_ID.itemsize == ID_BYTES
_FEW_IDS = 64  # are looked up one by one
_FIRST_ROWS = 256
_FEW_ROWS = 65_536
_MANY = 128  # times as many are reserved: address space, of which the kernel gives what is used


def _prefixes(namespace: Namespace) -> Iterable[Namespace]:
    return (namespace[:length] for length in range(len(namespace) + 1))


def _tags_above(tags: tuple[str, ...]) -> Iterable[str]:
    """Each tag, and all that it is below: "ai:llm" is found by "ai" as well."""
    for tag in tags:
        parts = tag.split(":")
        for length in range(1, len(parts) + 1):
            yield ":".join(parts[:length])


class Interned(Generic[Code]):
    """Values kept once, and their codes: 0, 1, 2, …

    ``above``: the names that a value is found by, such as what holds it. Searches ask for them, on
    any thread; one thread adds values.
    """

    def __init__(
        self, *values: Code, above: Callable[[Code], Iterable[Hashable]] | None = None
    ) -> None:
        self.values: list[Code] = list(values)
        self._codes = {value: code for code, value in enumerate(values)}
        self._above = above
        self._under: dict[Hashable, list[int]] = {}
        self._filed = 0  # how many of the values are in ``_under``
        self._filing = threading.Lock()

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: Code) -> int:
        found = self._codes.get(value)
        if found is None:
            found = self._codes[value] = len(self.values)
            self.values.append(value)
        return found

    def known(self, value: Code) -> int | None:
        return self._codes.get(value)

    def under(self, *names: Hashable) -> Array:
        """One truth value a code: which values are found by every one of ``names``."""
        assert self._above is not None
        with self._filing:
            count = len(self.values)
            for code in range(self._filed, count):
                for each in set(self._above(self.values[code])):
                    self._under.setdefault(each, []).append(code)
            self._filed = count
            found = [self._under.get(name, ()) for name in names]
            mask = np.zeros(count, np.bool_)
            mask[list(set(found[0]).intersection(*found[1:]))] = True
        return mask


class MemoryTable:
    def __init__(self) -> None:
        self.count = 0
        self._columns: dict[str, Array] = {
            name: np.zeros(_FIRST_ROWS, kind) for name, kind in COLUMNS.items()
        }
        self._by_id = RowIndex()
        self._by_key = RowIndex()
        self._by_original = RowIndex()
        self.types: Interned[str] = Interned("")
        self.namespaces: Interned[Namespace] = Interned((), above=_prefixes)
        self.agents: Interned[str | None] = Interned(None)
        self.speakers: Interned[str | None] = Interned(None)
        self.tags: Interned[tuple[str, ...]] = Interned((), above=_tags_above)

    # ---- reading ---------------------------------------------------------------------------------

    def column(self, name: str) -> Array:
        return self._columns[name][: self.count]

    def get(self, row: int, name: str) -> Any:
        return self._columns[name][row].item()

    def id(self, row: int) -> Id:
        columns = self._columns
        return Id(
            columns["high"][row].item(), columns["middle"][row].item(), columns["low"][row].item()
        )

    def find(self, wanted: Id) -> int | None:
        for row in self._by_id.find(wanted.high):
            if self.id(row) == wanted:
                return row
        return None

    def find_many(self, ids: Sequence[Id]) -> Array:
        """The rows of those that are known, in the order of ``ids``."""
        if len(ids) > _FEW_IDS:
            return self.find_packed(pack_ids(ids))
        found = [row for wanted in ids if (row := self.find(wanted)) is not None]
        return np.array(found, np.int64)

    def find_packed(self, packed: bytes) -> Array:
        """As ``find_many``, of ids laid end to end. Raises Corrupt where one is not whole."""
        if len(packed) <= _FEW_IDS * ID_BYTES:
            return self.find_many(unpack_ids(packed))
        return self.places_and_rows(packed)[1]

    def places_and_rows(self, packed: bytes) -> tuple[Array, Array]:
        """Of the ids laid end to end that are known: the how-manieth each is, and its row."""
        ids = np.frombuffer(check_packed(packed), _PACKED_ID)
        return self.rows_of(ids["high"], ids["middle"], ids["low"])

    def rows_of(self, high: Array, middle: Array, low: Array) -> tuple[Array, Array]:
        """(places, rows) of the ids that are known, where columns hold their parts."""
        places, rows = self._by_id.find_each(high)
        same = self._columns["middle"][rows] == middle[places]
        same &= self._columns["low"][rows] == low[places]
        return places[same], rows[same]

    def packed_ids(self, rows: Array) -> bytes:
        """Of these rows, laid end to end."""
        packed = np.empty(len(rows), _PACKED_ID)
        for name in packed.dtype.names or ():
            packed[name] = self._columns[name][rows]
        return packed.tobytes()

    def holders(self, key: int) -> list[int]:
        """Rows that bear this key's hash, oldest first, whatever their status."""
        return self._by_key.find(key)

    def children(self, row: int) -> Array:
        """Rows of its chunks and summaries, of all versions, ascending. Any thread: those that
        were there when it was asked.
        """
        return np.unique(np.array(self._by_original.find(row), np.int64))

    # ---- changing --------------------------------------------------------------------------------

    def add(self, wanted: Id, **values: Any) -> int:
        row = self.count
        if row == len(self._columns["high"]):
            self._grow(row + 1)
        columns = self._columns
        columns["high"][row], columns["middle"][row], columns["low"][row] = wanted
        columns["original"][row] = NO_ROW
        for name, value in values.items():
            columns[name][row] = value
        self.count = row + 1
        self._by_id.add(wanted.high, row)
        key = values.get("key")
        if key:
            self._by_key.add(key, row)
        original = values.get("original", NO_ROW)
        if original != NO_ROW:
            self._by_original.add(original, row)
        return row

    def enter_key(self, row: int, key: int) -> None:
        self._columns["key"][row] = key
        self._by_key.add(key, row)

    def enter_original(self, row: int, original: int) -> None:
        if self._columns["original"][row] != original:
            self._columns["original"][row] = original
            self._by_original.add(original, row)

    def extend(self, columns: dict[str, Array]) -> None:
        """Many rows at once, in log order, all columns given."""
        more = len(columns["high"])
        start, stop = self.count, self.count + more
        if stop > len(self._columns["high"]):
            self._grow(stop)
        for name, column in self._columns.items():
            column[start:stop] = columns[name]
        self.count = stop
        rows = np.arange(start, stop, dtype=np.uint32)
        self._by_id.extend(self._columns["high"][start:stop], rows)
        keys = self._columns["key"][start:stop]
        self._by_key.extend(keys[keys != 0], rows[keys != 0])
        originals = self._columns["original"][start:stop]
        made = originals != NO_ROW
        self._by_original.extend(originals[made].astype(np.uint64), rows[made])

    def set(self, row: Any, **values: Any) -> None:
        """``row``: one, or an array of them."""
        for name, value in values.items():
            self._columns[name][row] = value

    def _grow(self, rows: int) -> None:
        # Moving a large table would hold up the write that met its end.
        capacity = max(2 * rows, _FIRST_ROWS)
        if capacity > _FEW_ROWS:
            capacity = max(capacity, min(_MANY * _FEW_ROWS, _MANY * rows))
        for name, column in self._columns.items():
            grown = np.zeros(capacity, column.dtype)
            grown[: self.count] = column[: self.count]
            self._columns[name] = grown

    # ---- as a whole ------------------------------------------------------------------------------

    def alive(self) -> Array:
        """Which rows are not gone."""
        found: Array = self.column("status") != Status.GONE
        return found

    @property
    def bytes(self) -> int:
        return sum(column[: self.count].nbytes for column in self._columns.values())
