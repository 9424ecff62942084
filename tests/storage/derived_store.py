"""A small derived store whose whole content follows from how many memories it has.

Memory ``n`` stands at log position ``8 * n``, has its own direction among the vectors and its own
word among the texts, so that a mix of two generations, or a record under another id, shows. Run as
a program it publishes one generation after the other until somebody kills it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from neverforget.storage.arrow_generation import Generation
from neverforget.storage.arrow_writing import merge_generations, write_generation
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.manifest import (
    Manifest,
    Part,
    collect,
    examine,
    free_name,
    publish,
)
from neverforget.storage.memory_row import MEMORY_ROWS, MemoryRow
from neverforget.storage.text_index import TextDocument, TextIndex
from neverforget.storage.vector_index import VectorBase, VectorBounds, VectorIndex

LOG_ID = 0x5EED
DIMENSION = 16
STRIDE = 8
BOUNDS = VectorBounds(flat_max=60, overlay_max=16, exact_max=4, probes=64)
GENERATIONS_MAX = 4


def vector(n: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.random.default_rng(n).standard_normal(DIMENSION)


def row(n: int) -> MemoryRow:
    return MemoryRow(
        position=STRIDE * n,
        id=n.to_bytes(16, "big"),
        version=1,
        record_crc=n * 7919,
        text=f"memory word{n} ü",
        context=None,
        key=None,
        type="fact",
        status="active",
        tags=("a:b",),
        namespace=("user",),
        agent=None,
        speaker=None,
        source=None,
        importance=1.0,
        confidence=1.0,
        created_at_us=n,
        occurred_at_us=None,
        valid_from_us=None,
        valid_to_us=None,
        metadata=b"\xa0",
        rest=b"",
    )


def document(n: int) -> TextDocument:
    return TextDocument(n, f"memory word{n}", context=f"near{n}")


class DerivedStore:
    """The parts of one directory, brought from one count of memories to the next."""

    def __init__(self, fs: FileSystem, directory: Path, *, text: bool = True) -> None:
        self.fs, self.directory = fs, directory
        self.manifest = Manifest(log_id=LOG_ID, number=0, watermark=0)
        self.count = 0
        self.vectors = VectorIndex(VectorBase.empty(DIMENSION), BOUNDS)
        self.text: TextIndex | None = None
        self._wants_text = text

    @classmethod
    def open(cls, fs: FileSystem, directory: Path) -> DerivedStore:
        """What an owner does: use what can be used, derive the rest anew."""
        store = cls(fs, directory)
        found = examine(fs, directory, LOG_ID)
        assert not found.damaged, found.findings
        if found.manifest is not None:
            store.manifest = found.manifest
            store.count = found.manifest.watermark // STRIDE
            (part,) = found.manifest.of("vectors")
            assert part.seal is not None
            base = VectorBase.load(fs, directory / part.name, part.seal, DIMENSION)
            store.vectors = VectorIndex(base, BOUNDS)
            (part,) = found.manifest.of("text")
            store.text = TextIndex.open(fs, directory / part.name)
        collect(fs, directory, found.manifest)
        return store

    def advance(self, count: int, *, new_text: bool = False) -> None:
        """Publish a generation with ``count`` memories."""
        number, fs, directory = self.manifest.number + 1, self.fs, self.directory
        new, stop = range(self.count, count), STRIDE * count
        parts = self._rows(number, count)
        self.vectors.add(np.array(new), [vector(n) for n in new])
        name = free_name(fs, directory, "vectors", number)
        seal = self.vectors.fold().save(fs, directory / name)
        parts.append(Part(role="vectors", name=name, start=0, stop=stop, seal=seal))
        if self._wants_text:
            name = self._bring_text(number, count, new_text)
            assert self.text is not None
            details: dict[str, str | int] = {"incarnation": self.text.incarnation}
            parts.append(Part(role="text", name=name, start=0, stop=stop, details=details))
        manifest = Manifest(log_id=LOG_ID, number=number, watermark=stop, parts=tuple(parts))
        publish(fs, directory, manifest)
        self.manifest, self.count = manifest, count
        collect(fs, directory, manifest)

    def _rows(self, number: int, count: int) -> list[Part]:
        fs, directory = self.fs, self.directory
        name = free_name(fs, directory, "rows", number)
        old = self.manifest.of("rows")
        new = map(row, range(self.count, count))
        if len(old) < GENERATIONS_MAX:
            start = STRIDE * self.count
            written = write_generation(fs, directory / name, MEMORY_ROWS, new)
        else:
            # The oldest become one; what is new follows with the next generation's rows.
            start, recent = 0, directory / free_name(fs, directory, "rows", number + 1_000_000)
            last = write_generation(fs, recent, MEMORY_ROWS, new)
            sources = [generation(fs, directory, part) for part in old]
            sources.append(Generation.open(fs, recent, MEMORY_ROWS, last.seal))
            written = merge_generations(fs, directory / name, sources)
            old = []
        part = Part(
            role="rows",
            name=name,
            start=start,
            stop=STRIDE * count,
            seal=written.seal,
            details={"file_id": written.file_id},
        )
        return [*old, part]

    def _bring_text(self, number: int, count: int, anew: bool) -> str:
        if self.text is None or anew:
            if self.text is not None:
                self.text.close()
            name = free_name(self.fs, self.directory, "text", number)
            self.text = TextIndex.create(self.fs, self.directory / name)
            self.text.load(map(document, range(count)), STRIDE * count)
            return name
        self.text.add(map(document, range(self.text.watermark // STRIDE, count)))
        self.text.commit(max(STRIDE * count, self.text.watermark))
        return self.manifest.of("text")[0].name

    def close(self) -> None:
        if self.text is not None:
            self.text.close()


def generation(fs: FileSystem, directory: Path, part: Part) -> Generation[MemoryRow]:
    assert part.seal is not None
    file_id = str(part.details["file_id"])
    return Generation.open(fs, directory / part.name, MEMORY_ROWS, part.seal, file_id=file_id)


def check(fs: FileSystem, directory: Path, *, at_least: int = 0) -> int:
    """Every part is that of one generation, byte for byte and record for record. Returns how many
    memories it has.
    """
    found = examine(fs, directory, LOG_ID, depth="sha")
    assert not found.damaged, found.findings
    if found.manifest is None:
        assert at_least == 0, "what was published is gone"
        return 0
    manifest = found.manifest
    count = manifest.watermark // STRIDE
    assert count >= at_least, f"{at_least} were published, {count} are there"
    expected = 0
    for part in manifest.of("rows"):
        one = generation(fs, directory, part)
        assert part.start == STRIDE * expected
        for number in range(len(one)):
            assert one.row(number) == row(expected)
            expected += 1
        one.close()
    assert expected == count
    (part,) = manifest.of("vectors")
    assert part.seal is not None and part.stop == manifest.watermark
    base = VectorBase.load(fs, directory / part.name, part.seal, DIMENSION)
    snapshot = VectorIndex(base, BOUNDS).snapshot()
    assert snapshot.ids().tolist() == list(range(count))
    for n in range(0, count, max(1, count // 20)):
        assert snapshot.search(vector(n), 1, exact=True).ids.tolist() == [n]
    for part in manifest.of("text"):
        check_text(fs, directory / part.name, count)
    return count


def check_text(fs: FileSystem, directory: Path, at_least: int) -> None:
    """The text index is at its own watermark, maybe beyond the manifest's, or in a commit."""
    index = TextIndex.open(fs, directory)
    there = index.snapshot().ids().tolist()
    assert len(there) >= index.watermark // STRIDE >= at_least
    assert there == list(range(len(there)))
    for n in range(0, len(there), max(1, len(there) // 20)):
        assert index.snapshot().search(f"word{n}", 5).ids.tolist() == [n]
        assert index.snapshot().search(f"near{n}", 5, field="context").ids.tolist() == [n]
    index.close()


def corrupted(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def main(directory: Path, seed: int) -> None:
    """Publish for ever, and say each count when it is published."""
    rng = random.Random(seed)
    store = DerivedStore.open(LocalFileSystem(), directory)
    print(store.count, flush=True)
    while True:
        store.advance(store.count + rng.randint(1, 6), new_text=rng.random() < 0.3)
        print(store.count, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
