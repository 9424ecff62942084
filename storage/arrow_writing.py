"""Writing generations: from rows, and from older generations, in bounded memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from neverforget.storage.arrow_generation import HEADER_KEY, Generation, GenerationHeader
from neverforget.storage.arrow_rows import R, RowFormat
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.sealed_file import Seal, Sink, write_sealed
from neverforget.storage.vector_math import Array

BATCH_ROWS_MAX: Final = 8_192
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

_ROW_BYTES = 200  # what a row is taken to need besides its texts, to bound a batch


@dataclass(frozen=True)
class Written:
    """A generation that is on disk. ``first`` and ``last`` are positions, None without rows."""

    path: Path
    seal: Seal
    file_id: str
    rows: int
    first: int | None
    last: int | None


def write_generation(
    fs: FileSystem, path: Path, rows: RowFormat[R], source: Iterable[R]
) -> Written:
    """Write ``source``, whose positions ascend, to ``path``; one batch is in memory at a time.

    Survives power loss when it returns. InvalidArgument for positions out of order; OutOfSpace,
    OSError: what stood at ``path`` stands there.
    """
    return _write(fs, path, rows, _encoded(rows, source))


def merge_generations(
    fs: FileSystem,
    path: Path,
    generations: Sequence[Generation[R]],
    *,
    keep: Callable[[Array], Array] | None = None,
    patches: Mapping[int, R] | None = None,
) -> Written:
    """Write what ``generations``, in log order, hold together to ``path``, batch by batch.

    ``keep`` takes the positions of a batch and returns a mask of those that stay. ``patches`` are
    rows that stand in for those of their positions. Durability and errors as ``write_generation``;
    Corrupt when a source is damaged, so that no damage is ever copied.
    """
    assert generations, "nothing to merge"
    for generation in generations:
        generation.check("crc")
    format_ = generations[0].format
    batches = (batch for one in generations for _, batch in one.scan(format_.schema.names))
    kept = (_patched(format_, batch, keep, patches or {}) for batch in batches)
    return _write(fs, path, format_, _joined(kept))


def _write(fs: FileSystem, path: Path, rows: RowFormat[R], batches: Iterable[Any]) -> Written:
    header = GenerationHeader(rows.name, rows.version, secrets.token_hex(8))
    schema = rows.schema.with_metadata({HEADER_KEY: msgspec.json.encode(header)})
    count, first, last = 0, None, None

    def produce(sink: Sink) -> None:
        nonlocal count, first, last
        with (
            pa.PythonFile(_Writable(sink), mode="w") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            for batch in batches:
                positions = batch.column(0).to_numpy()
                if (np.diff(positions) <= 0).any() or (last is not None and positions[0] <= last):
                    raise InvalidArgument("rows must come in the order of their log positions")
                first = int(positions[0]) if first is None else first
                last = int(positions[-1])
                count += batch.num_rows
                writer.write_batch(batch)

    seal = write_sealed(fs, path, produce)
    return Written(path, seal, header.file_id, count, first, last)


def _encoded(rows: RowFormat[R], source: Iterable[R]) -> Iterator[Any]:
    gathered: list[R] = []
    size = 0
    for row in source:
        gathered.append(row)
        size += _ROW_BYTES + sum(
            len(value) for value in msgspec.structs.astuple(row) if isinstance(value, str | bytes)
        )
        if len(gathered) >= BATCH_ROWS_MAX or size >= BATCH_BYTES_MAX:
            yield rows.encode(gathered)
            gathered, size = [], 0
    if gathered:
        yield rows.encode(gathered)


def _patched(
    rows: RowFormat[R],
    batch: Any,
    keep: Callable[[Array], Array] | None,
    patches: Mapping[int, R],
) -> Any:
    positions = batch.column(0).to_numpy()
    stays: Array = np.ones(len(positions), bool) if keep is None else np.asarray(keep(positions))
    changed = [p for p in positions[stays].tolist() if p in patches] if patches else []
    for position in changed:
        first = msgspec.structs.astuple(patches[position])[0]
        assert first == position, "a patch keeps its position"
    if changed:
        stays = stays & ~np.isin(positions, changed)
    if not stays.all():
        batch = batch.filter(pa.array(stays))
    if changed:
        new = rows.encode([patches[position] for position in changed])
        batch = _concatenated([batch, new])
        batch = batch.take(pa.array(np.argsort(batch.column(0).to_numpy())))
    return batch


def _joined(batches: Iterable[Any]) -> Iterator[Any]:
    """Small batches put together up to the bounds, empty ones dropped."""
    waiting: list[Any] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if waiting and (
            count + batch.num_rows > BATCH_ROWS_MAX or size + batch.nbytes > BATCH_BYTES_MAX
        ):
            yield _concatenated(waiting)
            waiting, count, size = [], 0, 0
        waiting.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


class _Writable:
    """What Arrow wants of a Python file."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self.write = sink.write

    def flush(self) -> None:
        """The sink flushes itself."""

    def close(self) -> None:
        self.closed = True
