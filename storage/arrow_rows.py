"""Rows as Arrow columns and back, checked row by row.

A row is a msgspec struct of simple fields, the first of which is ``position``: where in the log it
came from. Its columns follow from its annotations, so that any Arrow reader understands a
generation. Two more columns guard it:

* ``row_crc``: CRC32C over the MessagePack of the row. Every row read is encoded again and compared,
  because Arrow has no checksums: a flipped bit, also in an offset, must not give another row's
  text.
* ``exact``: only where a text has lone surrogates, which Arrow cannot hold: the row in CBOR. The
  other columns then hold ``surrogates.escaped`` text, and ``row_crc`` is over these bytes.

Reading goes over the raw buffers with bounds checked, never through Arrow's unchecked accessors: a
damaged offset raises Corrupt and does not end the process.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from neverforget.storage.content import decode_body, encode_body
from neverforget.storage.errors import Corrupt
from neverforget.storage.surrogates import escaped

R = TypeVar("R", bound=msgspec.Struct)
Cell = Callable[[int], Any]

_TEXTS = tuple[str, ...]
_ARROW_TYPES: dict[Any, Any] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    _TEXTS: pa.list_(pa.field("item", pa.string(), nullable=False)),
}
_GUARDS = (
    pa.field("row_crc", pa.int64(), nullable=False),
    pa.field("exact", pa.binary(), nullable=True),
)
_EXACT = 0


class RowFormat(Generic[R]):
    """How rows of one struct are kept. ``name`` and ``version`` stand in every file."""

    def __init__(self, name: str, version: int, row_type: type[R]) -> None:
        self.name, self.version, self.row_type = name, version, row_type
        fields = [(field.name, *_kind(field.type)) for field in msgspec.structs.fields(row_type)]
        self.names = tuple(name for name, _, _ in fields)
        assert self.names[0] == "position", "rows are found and ordered by their log position"
        columns = [pa.field(name, _ARROW_TYPES[kind], nullable=no) for name, kind, no in fields]
        self.schema: Any = pa.schema([*columns, *_GUARDS])
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, rows: Sequence[R]) -> Any:
        """A RecordBatch of ``rows``."""
        crcs: list[int] = []
        exact: list[bytes | None] = []
        for row in rows:
            try:
                crcs.append(crc32c(self._encoder.encode(row)))
                exact.append(None)
            except UnicodeEncodeError:
                body = encode_body({_EXACT: [getattr(row, name) for name in self.names]})
                crcs.append(crc32c(body))
                exact.append(body)
        columns = [self._column(n, [getattr(row, n) for row in rows]) for n in self.names]
        columns += [pa.array(crcs, pa.int64()), pa.array(exact, pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def decode(self, cells: Sequence[Cell], at: int) -> R:
        """Row ``at`` of a batch, of which ``cells`` are the columns. Corrupt when it is not the one
        that was encoded.
        """
        try:
            crc, exact = cells[-2](at), cells[-1](at)
            if exact is not None:
                if crc32c(exact) == crc:
                    values = decode_body(exact)[_EXACT]
                    return self.row_type(*(tuple(v) if type(v) is list else v for v in values))
            else:
                row = self.row_type(*(cell(at) for cell in cells[:-2]))
                if crc32c(self._encoder.encode(row)) == crc:
                    return row
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            raise Corrupt(f"a row cannot be read: {error}") from error
        raise Corrupt("a row fails its CRC")

    def _column(self, name: str, values: list[Any]) -> Any:
        kind = self.schema.field(name).type
        if pa.types.is_string(kind):
            values = [value if value is None else escaped(value) for value in values]
        elif pa.types.is_list(kind):
            values = [[escaped(text) for text in texts] for texts in values]
        return pa.array(values, kind)


def _kind(annotation: Any) -> tuple[Any, bool]:
    """(plain type, whether None is allowed)."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        plain = [one for one in typing.get_args(annotation) if one is not type(None)]
        assert len(plain) == 1 and plain[0] in _ARROW_TYPES, annotation
        return plain[0], True
    assert annotation in _ARROW_TYPES, f"{annotation} has no Arrow type here"
    return annotation, False


# ---- reading raw buffers -------------------------------------------------------------------------


def cells_of(batch: Any) -> list[Cell]:
    """A reader for each column of a batch: row number in, Python value out. Raises ValueError where
    the buffers are shorter than the batch says.
    """
    return [_cell(batch.column(at), batch.num_rows) for at in range(batch.num_columns)]


def _cell(column: Any, count: int) -> Cell:
    buffers = column.buffers()
    kind = column.type
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        numbers = _numbers(buffers[1], "<i8" if pa.types.is_int64(kind) else "<f8", count)
        return _nullable(buffers[0], count, lambda at: numbers[at].item())
    if pa.types.is_list(kind):
        offsets = _numbers(buffers[1], "<i4", count + 1)
        text = _slices(buffers[3], buffers[4], len(column.values), decode=True)
        return lambda at: tuple(text(i) for i in range(_bound(offsets, at), int(offsets[at + 1])))
    return _nullable(
        buffers[0], count, _slices(buffers[1], buffers[2], count, pa.types.is_string(kind))
    )


def _slices(offsets_buffer: Any, data_buffer: Any, count: int, decode: bool) -> Cell:
    offsets = _numbers(offsets_buffer, "<i4", count + 1)
    data = memoryview(data_buffer) if data_buffer is not None else memoryview(b"")

    def cell(at: int) -> Any:
        stop = int(offsets[at + 1])
        if stop > len(data):
            raise ValueError("an offset points behind its buffer")
        piece = bytes(data[_bound(offsets, at) : stop])
        return piece.decode() if decode else piece

    return cell


def _bound(offsets: Any, at: int) -> int:
    start = int(offsets[at])
    if not 0 <= start <= int(offsets[at + 1]):
        raise ValueError("offsets run backwards")
    return start


def _nullable(validity: Any, count: int, cell: Cell) -> Cell:
    if validity is None:
        return cell
    bits = _numbers(validity, "u1", (count + 7) // 8)
    return lambda at: cell(at) if bits[at >> 3] >> (at & 7) & 1 else None


def _numbers(buffer: Any, dtype: str, count: int) -> Any:
    if count == 0 or buffer is None:
        if count > 1 or (count == 1 and dtype != "<i4"):
            raise ValueError("a buffer is missing")
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count)
