"""Generations: immutable Arrow IPC files of rows, in the order of their log positions.

Written once (``arrow_writing``), memory-mapped, merged into a new one and unlinked. A process
holds the map and a few hundred bytes a batch, not the texts. Opened by size and header; each row
is checked when it is read (``arrow_rows``), the whole file when columns are scanned or rows are
merged, because a scan has nothing else to notice a flipped byte by.

Invariants: positions ascend and are unique; a generation covers every row of the log range that the
manifest gives for it; no row of a damaged file is ever returned, least of all under another id.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Generic

import msgspec
import numpy as np
import pyarrow as pa

from neverforget.storage.arrow_rows import Cell, R, RowFormat, cells_of
from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.sealed_file import Depth, Seal, check_seal
from neverforget.storage.vector_math import Array

HEADER_KEY: Final = b"neverforget"
NONE: Final = -(2**63)  # what stands for None in a column of integers


class GenerationHeader(msgspec.Struct, frozen=True):
    """In the file's schema. ``file_id`` tells this file from every other one."""

    table: str
    version: int
    file_id: str


class Generation(Generic[R]):
    """An open generation. Reading is safe from any thread."""

    def __init__(
        self, fs: FileSystem, path: Path, rows: RowFormat[R], seal: Seal, batches: list[Any]
    ) -> None:
        self._fs, self.path, self.format, self.seal = fs, path, rows, seal
        self._batches = batches
        self._cells: list[list[Cell]] = [cells_of(batch) for batch in batches]
        self._positions: list[Array] = [batch.column(0).to_numpy() for batch in batches]
        self._firsts = [int(positions[0]) for positions in self._positions]
        self._starts: list[int] = []
        self._rows = 0
        for batch in batches:
            self._starts.append(self._rows)
            self._rows += batch.num_rows
        self._checked = False

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: Path,
        rows: RowFormat[R],
        seal: Seal,
        *,
        file_id: str | None = None,
    ) -> Generation[R]:
        """Map it. Corrupt when it is missing, of another size, no Arrow file, or another one than
        ``file_id`` says: rebuild it. UnsupportedFormat of a newer version.
        """
        check_seal(fs, path, seal, "size")
        with closing(fs.open(path, read_only=True)) as file:
            buffer = pa.py_buffer(file.map() if seal.size else b"")  # keeps the map
        try:
            reader = pa.ipc.open_file(pa.BufferReader(buffer))
            header = _header(reader.schema)
            if (header.table, header.version) == (rows.name, rows.version):
                if not reader.schema.equals(rows.schema):
                    raise Corrupt(f"{path} has other columns than its header says", file=str(path))
                if file_id is not None and header.file_id != file_id:
                    raise Corrupt(f"{path} was replaced by another generation", file=str(path))
                batches = [reader.get_batch(at) for at in range(reader.num_record_batches)]
                for batch in batches:
                    batch.validate()  # lengths and ends of buffers; costs nothing per row
                return cls(fs, path, rows, seal, batches)
        except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
            raise Corrupt(
                f"{path} is no readable generation: {error}; it is rebuilt", file=str(path)
            ) from error
        raise UnsupportedFormat(
            f"{path} holds {header.table} in version {header.version}, this program knows "
            f"{rows.name} in version {rows.version}; open it with the newer program"
        )

    def __len__(self) -> int:
        return self._rows

    # ---- rows ------------------------------------------------------------------------------------

    def row(self, number: int) -> R:
        """Row ``number`` (0 is the oldest), checked. Corrupt when it is damaged."""
        if not 0 <= number < self._rows:
            raise IndexError(number)
        at = bisect.bisect_right(self._starts, number) - 1
        try:
            return self.format.decode(self._cells[at], number - self._starts[at])
        except Corrupt as error:
            raise Corrupt(
                f"row {number} of {self.path}: {error.message}; it is read from the log",
                file=str(self.path),
            ) from error

    def find(self, position: int) -> int | None:
        """The number of the row of this log position. O(log n). The file's digest is checked
        first: what a damaged column hides would look as if it had never been there.
        """
        self.check("crc")
        return self.place(position)

    def place(self, position: int) -> int | None:
        """As ``find``, by a file that is not checked: who finds a row looks whether it is the one,
        and who finds none looks elsewhere.
        """
        at = bisect.bisect_right(self._firsts, position) - 1
        if at < 0:
            return None
        positions = self._positions[at]
        row = int(np.searchsorted(positions, position))
        if row == len(positions) or positions[row] != position:
            return None
        return self._starts[at] + row

    # ---- columns ---------------------------------------------------------------------------------

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """(number of its first row, RecordBatch of these columns) for each batch. The file's digest
        is checked before the first one: Corrupt when it differs.
        """
        self.check("crc")
        for start, batch in zip(self._starts, self._batches):
            yield start, batch.select(list(columns))

    def readers(self, names: Sequence[str]) -> Iterator[tuple[Array, list[Cell]]]:
        """For each batch the positions of its rows, and a reader of each of these columns, by the
        place of a row in the batch. The file's digest is checked before the first one; texts are as
        they stand there, see ``exact`` in ``arrow_rows``.
        """
        self.check("crc")
        at = [self.format.schema.get_field_index(name) for name in names]
        for positions, cells in zip(self._positions, self._cells):
            yield positions, [cells[number] for number in at]

    def column(self, name: str) -> Array:
        """A column of numbers as one array, 8 bytes a row; for None stands ``NONE``."""
        parts = []
        for _, batch in self.scan([name]):
            cells = batch.column(0)
            if cells.null_count:
                cells = cells.fill_null(NONE)
            parts.append(cells.to_numpy())
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def check(self, depth: Depth) -> None:
        """Read the file and compare it with its seal. Corrupt when it is not what was written. At
        "crc" once only; "sha" reads again, for looking in the background.
        """
        if depth == "crc" and self._checked:
            return
        check_seal(self._fs, self.path, self.seal, depth)
        self._checked = self._checked or depth != "size"

    def close(self) -> None:
        """Let go of the map; it goes with the last column that somebody still holds."""
        self._batches, self._cells, self._positions = [], [], []
        self._firsts, self._starts, self._rows = [], [], 0


def _header(schema: Any) -> GenerationHeader:
    metadata = schema.metadata or {}
    return msgspec.json.decode(metadata[HEADER_KEY], type=GenerationHeader)
