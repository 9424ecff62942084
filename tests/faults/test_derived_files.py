"""What the long-term store derives from its log, broken on purpose: every file of a generation cut
short, flipped, lost; a full disk during the second save of each kind; kill -9 while generations
are written. All of it is noticed and rebuilt, and no record ever comes back under another id.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import NeverforgetError, OutOfSpace
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.manifest import MANIFEST_FILE, Part, collect, examine
from neverforget.storage.vector_index import VectorBase
from tests.conftest import ROOT
from tests.faults.conftest import Disks
from tests.faults.disks import MIB
from tests.storage.derived_store import (
    DIMENSION,
    LOG_ID,
    DerivedStore,
    check,
    check_text,
    corrupted,
    generation,
    row,
)

FS = LocalFileSystem()


@pytest.fixture(params=["flat", "ivf"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two generations of rows, one of everything else."""
    store = DerivedStore.open(FS, tmp_path)
    store.advance(40)
    store.advance(50 if request.param == "flat" else 90)
    assert store.vectors.snapshot().base.kind == request.param
    store.close()
    return tmp_path


def files_of(directory: Path) -> Iterator[Path]:
    """Every file that holds something; locks do not."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.endswith(".lock") and path.name != "LOCK":
            yield path


def part_of(directory: Path, path: Path, parts: tuple[Part, ...]) -> Part | None:
    name = path.relative_to(directory).parts[0]
    return next((part for part in parts if part.name == name), None)


def damages(whole: bytes, rng: random.Random) -> Iterator[tuple[str, bytes | None]]:
    for share in (0, 0.25, 0.5, 0.99):
        yield f"cut at {share}", whole[: int(share * len(whole))]
    places = {0, len(whole) // 2, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(3))}
    for at in sorted(places):
        yield f"byte {at} flipped", corrupted(whole, at)
    yield "zeros", bytes(len(whole))
    yield "missing", None


def test_damage_to_any_file_is_noticed_and_names_what_to_rebuild(
    directory: Path, rng: random.Random
) -> None:
    before = examine(FS, directory, LOG_ID, depth="crc")
    assert before.manifest is not None and not before.damaged
    for path in files_of(directory):
        whole = path.read_bytes()
        part = part_of(directory, path, before.usable)
        for how, content in damages(whole, rng):
            if content == whole:
                continue
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            said = f"{path.name}: {how}"
            found = examine(FS, directory, LOG_ID, depth="crc")
            if part is None:
                assert path.name == MANIFEST_FILE and found.manifest is None, said
                assert found.rebuild == {"rows", "vectors", "text"}
            else:
                assert [damage.part for damage in found.damaged] == [part], said
                assert part.role in found.rebuild
                refuses_or_is_right(directory, part, said)
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
    assert examine(FS, directory, LOG_ID, depth="sha") == before


def refuses_or_is_right(directory: Path, part: Part, said: str) -> None:
    """Whoever opens the damaged part without having looked gets an error, or the truth."""
    try:
        if part.role == "text":
            check_text(FS, directory / part.name, 0)
        elif part.role == "vectors":
            assert part.seal is not None
            VectorBase.load(FS, directory / part.name, part.seal, DIMENSION)
        else:
            one = generation(FS, directory, part)
            for number in range(len(one)):
                assert one.row(number) == row(part.start // 8 + number), said
            one.check("crc")
    except NeverforgetError:
        return
    raise AssertionError(f"{said}: not noticed")


# ---- a full disk ---------------------------------------------------------------------------------


def save_all(store: DerivedStore, count: int) -> None:
    store.advance(count)


def save_vectors(store: DerivedStore, count: int) -> None:
    """Over the file of the manifest, as nobody should."""
    (part,) = store.manifest.of("vectors")
    store.vectors.snapshot().base.save(FS, store.directory / part.name)


def save_text(store: DerivedStore, count: int) -> None:
    assert store.text is not None
    store.text.add([])
    store.text.commit(store.text.watermark)


@pytest.mark.root
@pytest.mark.parametrize("save", [save_all, save_vectors, save_text])
@pytest.mark.parametrize("free_kib", [0, 8, 24, 72, 160])
def test_a_full_disk_at_the_second_save_keeps_the_first(
    disks: Disks, save: Callable[[DerivedStore, int], None], free_kib: int
) -> None:
    """pyarrow and FAISS destroy the file they write over when the disk is full. Here the first
    generation stays whole, the error is OutOfSpace, and room is all it takes to go on.
    """
    disk = disks.tmpfs(6 * MIB)
    store = DerivedStore.open(FS, disk.root)
    store.advance(400)
    ballast = disk.fill()
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - free_kib * 1024)
    refused = 0
    for _ in range(2):
        try:
            save(store, 700)
        except OutOfSpace:
            refused += 1
    assert refused or free_kib > 0 or save is save_vectors
    found = examine(FS, disk.root, LOG_ID, depth="sha")
    assert found.manifest is not None and not found.damaged
    ballast.unlink()
    collect(FS, disk.root, store.manifest)
    store.advance(max(store.count, 700) + 5)
    count = store.count
    store.close()
    assert check(FS, disk.root) == count


# ---- kill -9 -------------------------------------------------------------------------------------


@pytest.mark.timeout(3600)
def test_kill_9_while_generations_are_written_leaves_one_of_them(
    tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    """Field report 16: the old generation or the new, paired, never a mix; and the next process
    goes on from there.
    """
    rounds = 200 if request.config.getoption("--long") else 5
    published = 0
    for number in range(rounds):
        command = [sys.executable, "-m", "tests.storage.derived_store", str(tmp_path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
            assert writer.stdout is not None
            said = int(writer.stdout.readline())
            assert said >= published
            for _ in range(rng.randint(0, 4)):
                said = int(writer.stdout.readline())
            try:  # then a random moment, which is over before the writer would be
                writer.wait(rng.random() * 0.15)
            except subprocess.TimeoutExpired:
                writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
        assert writer.returncode == -signal.SIGKILL
        published = max(said, *map(int, rest[:-1]), 0) if rest else said
        published = check(FS, tmp_path, at_least=published)
    assert published > 0
