"""The manifest: what it says about its parts, what it notices, what it clears away, and that a
swap is whole whenever the process or the machine dies.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neverforget.storage.atomic_file import read_checked, write_checked
from neverforget.storage.errors import Corrupt, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.manifest import (
    MANIFEST_FILE,
    Manifest,
    Part,
    Role,
    collect,
    examine,
    free_name,
    part_name,
    publish,
    read_manifest,
)
from neverforget.storage.sealed_file import Seal
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Killed
from tests.storage.derived_store import LOG_ID, DerivedStore, check, vector

FS = LocalFileSystem()
ALL: set[Role] = {"rows", "vectors", "text"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DerivedStore]:
    one = DerivedStore.open(FS, tmp_path)
    one.advance(20)
    yield one
    one.close()


def test_a_manifest_comes_back_as_it_was_published(store: DerivedStore) -> None:
    found = examine(FS, store.directory, LOG_ID, depth="sha")
    assert found.manifest == store.manifest
    assert found.usable == store.manifest.parts
    assert (found.damaged, found.findings, found.rebuild) == ((), (), frozenset())
    assert [part.role for part in store.manifest.of("rows")] == ["rows"]


def test_without_a_manifest_everything_is_rebuilt(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_manifest(FS, tmp_path, LOG_ID)
    found = examine(FS, tmp_path, LOG_ID)
    assert found.manifest is None and found.rebuild == ALL and found.findings == ()


def test_a_manifest_of_another_log_is_none_of_ours(store: DerivedStore) -> None:
    found = examine(FS, store.directory, LOG_ID + 1)
    assert found.manifest is None and found.rebuild == ALL
    assert "another log" in found.findings[0].message


def test_a_newer_version_is_not_rebuilt_over(store: DerivedStore) -> None:
    path = store.directory / MANIFEST_FILE
    newer = msgspec.json.decode(read_checked(FS, path)) | {"version": 2, "parts": "otherwise"}
    write_checked(FS, path, msgspec.json.encode(newer) + b"\n")
    with pytest.raises(UnsupportedFormat, match="newer program"):
        examine(FS, store.directory, LOG_ID)


def test_a_part_that_is_missing_is_named_and_the_others_are_used(store: DerivedStore) -> None:
    store.advance(30)
    first, second = store.manifest.of("rows")
    (store.directory / first.name).unlink()
    found = examine(FS, store.directory, LOG_ID)
    assert [damage.part for damage in found.damaged] == [first]
    assert list(found.usable) == [part for part in store.manifest.parts if part != first]
    assert second in found.usable
    assert found.rebuild == {"rows"}
    finding = found.findings[0]
    assert (finding.kind, finding.severity) == ("bad_derived_file", "repaired")
    assert finding.file == str(store.directory / first.name) and "missing" in finding.message


def test_a_part_replaced_by_an_older_one_is_noticed(store: DerivedStore) -> None:
    """Field report 17: file N + 1 against manifest N, and the other way round."""
    (part,) = store.manifest.of("vectors")
    older = (store.directory / part.name).read_bytes()
    store.advance(25)
    (part,) = store.manifest.of("vectors")
    (store.directory / part.name).write_bytes(older)
    assert examine(FS, store.directory, LOG_ID).rebuild == {"vectors"}


def test_a_text_index_that_went_back_is_noticed(store: DerivedStore) -> None:
    (part,) = store.manifest.of("text")
    assert store.text is not None
    text = store.directory / part.name
    older = {path.name: path.read_bytes() for path in text.iterdir()}
    store.advance(25)
    store.close()
    for path in text.iterdir():
        path.unlink()
    for name, content in older.items():
        (text / name).write_bytes(content)
    found = examine(FS, store.directory, LOG_ID)
    assert found.rebuild == {"text"} and "older" in found.findings[0].message


def test_a_text_index_ahead_of_the_manifest_is_used(store: DerivedStore) -> None:
    assert store.text is not None
    store.text.commit(10_000)
    assert examine(FS, store.directory, LOG_ID, depth="sha").rebuild == frozenset()


def test_unreferenced_parts_are_collected_and_strangers_stay(store: DerivedStore) -> None:
    directory = store.directory
    ours = ["rows-00000000000000ff.arrow", "vectors-00000000000000ff.faiss.tmp", "MANIFEST.tmp"]
    for name in [*ours, "rows-notes.arrow", "README", "rows-00000000000000fe.arrow"]:
        (directory / name).write_bytes(b"x")
    (directory / "text-00000000000000ff").mkdir()
    (directory / "text-00000000000000ff" / "half.store").write_bytes(b"x")
    (directory / "photos").mkdir()
    gone = collect(FS, directory, store.manifest, keep=["rows-00000000000000fe.arrow"])
    assert set(gone) == {*ours, "text-00000000000000ff"}
    left = {path.name for path in directory.iterdir()}
    assert left == {
        *(part.name for part in store.manifest.parts),
        *("MANIFEST", "README", "photos", "rows-notes.arrow", "rows-00000000000000fe.arrow"),
    }
    assert collect(FS, directory, store.manifest, keep=["rows-00000000000000fe.arrow"]) == []
    store.close()
    check(FS, directory, at_least=20)


def test_names_are_never_used_twice(store: DerivedStore) -> None:
    assert part_name("rows", 1) == store.manifest.of("rows")[0].name
    assert free_name(FS, store.directory, "rows", 1) == part_name("rows", 2)
    assert free_name(FS, store.directory, "rows", 7) == part_name("rows", 7)


@pytest.mark.parametrize(
    "part",
    [
        Part(role="rows", name="anything", start=0, stop=0, seal=Seal(0, 0, "")),
        Part(role="rows", name=part_name("rows", 1), start=0, stop=0),
        Part(role="rows", name=part_name("rows", 1), start=0, stop=9, seal=Seal(0, 0, "")),
        Part(role="text", name=part_name("text", 1), start=0, stop=0, seal=Seal(0, 0, "")),
    ],
)
def test_a_manifest_that_cannot_be_meant_is_our_mistake(tmp_path: Path, part: Part) -> None:
    with pytest.raises(AssertionError):
        publish(FS, tmp_path, Manifest(log_id=1, number=1, watermark=8, parts=(part,)))
    assert not (tmp_path / MANIFEST_FILE).exists()


# ---- dying ---------------------------------------------------------------------------------------


def generations(fs: CrashFileSystem) -> DerivedStore:
    """Two generations of rows and vectors, and one more that somebody may kill."""
    store = DerivedStore(fs, ROOT, text=False)
    store.advance(12)
    store.advance(18)
    return store


def reopened(fs: CrashFileSystem) -> DerivedStore:
    store = DerivedStore(fs, ROOT, text=False)
    found = examine(fs, ROOT, LOG_ID)
    assert found.manifest is not None
    store.manifest, store.count = found.manifest, found.manifest.watermark // 8
    store.vectors.add(range(store.count), [vector(n) for n in range(store.count)])
    collect(fs, ROOT, found.manifest)
    return store


@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_a_generation_is_old_or_new_at_whatever_call_the_process_dies(death: str) -> None:
    """Field report 16, at every call that a generation makes, for kill -9 and for a power cut."""
    whole = CrashFileSystem()
    store = generations(whole)
    first = len(whole.calls)
    store.advance(25)
    calls = len(whole.calls)
    assert calls - first > 15
    seen = set()
    for at in range(first, calls + 1):
        fs = CrashFileSystem(seed=at)
        store = generations(fs)
        fs.kill_at(at)
        try:
            store.advance(25)
            published = True
        except Killed:
            published = False
        after = fs.process_death() if death == "kill" else fs.power_cut()
        count = check(after, ROOT, at_least=25 if published else 18)
        assert count in (18, 25)
        seen.add(count)
        again = reopened(after)
        again.advance(25 if count < 25 else 31)
        names = {*(part.name for part in again.manifest.parts), MANIFEST_FILE}
        assert set(after.list_directory(ROOT)) == names, "leftovers"
        check(after.power_cut(), ROOT, at_least=25)
    assert seen == {18, 25}


def test_a_device_that_lies_about_syncs_loses_the_generation() -> None:
    """The control: without the syncs a power cut must show in the test above."""
    lost = 0
    for seed in range(20):
        fs = CrashFileSystem(seed=seed, syncs_lie=True)
        generations(fs)
        try:
            check(fs.power_cut(), ROOT, at_least=18)
        except (AssertionError, Corrupt, NotFound, FileNotFoundError):
            lost += 1
    assert lost


def test_golden_bytes_of_a_manifest(tmp_path: Path) -> None:
    seal = Seal(size=5, crc32c=7, sha256="ab")
    part = Part(
        role="rows",
        name=part_name("rows", 3),
        start=64,
        stop=128,
        seal=seal,
        details={"file_id": "0123456789abcdef"},
    )
    publish(FS, tmp_path, Manifest(log_id=5, number=3, watermark=256, parts=(part,)))
    assert (tmp_path / MANIFEST_FILE).read_bytes() == (
        b'{"log_id":5,"number":3,"watermark":256,"parts":[{"role":"rows",'
        b'"name":"rows-0000000000000003.arrow","start":64,"stop":128,'
        b'"seal":{"size":5,"crc32c":7,"sha256":"ab"},"details":{"file_id":"0123456789abcdef"}}],'
        b'"version":1}\ncrc32c 5ce975bf\n'
    )
