"""Making a store's directory, and telling one from what is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from neverforget.runtime.config import Config
from neverforget.runtime.deployed_disk import describe, look
from neverforget.runtime.deployment import described, read_plan
from neverforget.runtime.store_directory import StoreDirectory, prepare
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import read_identity

FS = LocalFileSystem()


def made(path: Path, partitions: int | None = None) -> StoreDirectory:
    path.mkdir(exist_ok=True)
    return prepare(FS, path, Config() if partitions is None else Config(partitions=partitions))


def test_a_store_is_made_where_nothing_is(tmp_path: Path) -> None:
    store = made(tmp_path, partitions=3)
    assert store.config.partitions == 3
    assert [store.region(n).exists() for n in range(4)] == [True, True, True, False]
    again = prepare(FS, tmp_path, Config())
    assert (again.store_id, again.config.partitions) == (store.store_id, 3)


def test_our_own_traces_and_settings_made_beforehand_are_no_obstacle(tmp_path: Path) -> None:
    for name in ("LOCK", "ENDPOINT", "START", "host.log"):
        (tmp_path / name).write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "store.toml").write_text("[fixed]\npartitions = 1\n")
    assert made(tmp_path).config.partitions == 1


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UnsupportedFormat, match=r"thesis\.tex"):
        prepare(FS, tmp_path, Config())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_nothing_is_made_for_who_expects_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        prepare(FS, tmp_path, Config(), create=False)
    assert list(tmp_path.iterdir()) == []


def test_another_store_than_the_expected_one_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(UnsupportedFormat):
        prepare(FS, tmp_path, Config(), store_id="another")


def test_a_creation_that_was_interrupted_begins_again(tmp_path: Path) -> None:
    (tmp_path / "regions.unfinished" / "p0").mkdir(parents=True)
    (tmp_path / "regions.unfinished" / "p0" / "IDENTITY.tmp").write_text("")
    made(tmp_path)
    assert not (tmp_path / "regions.unfinished").exists()


def test_a_creation_that_lacks_only_its_identity_is_finished(tmp_path: Path) -> None:
    """The rename of the regions is the moment a store begins to exist; the rest follows from it."""
    store = made(tmp_path)
    (tmp_path / "IDENTITY").unlink()
    again = prepare(FS, tmp_path, Config(), create=False)
    assert again.store_id == store.store_id
    assert read_identity(FS, tmp_path).store_id == store.store_id


def test_regions_of_two_stores_make_no_identity(tmp_path: Path) -> None:
    made(tmp_path / "one")
    made(tmp_path / "two")
    (tmp_path / "one" / "IDENTITY").unlink()
    shutil.rmtree(tmp_path / "one" / "regions" / "p1")
    shutil.copytree(tmp_path / "two" / "regions" / "p1", tmp_path / "one" / "regions" / "p1")
    with pytest.raises(Corrupt, match="IDENTITY"):
        prepare(FS, tmp_path / "one", Config())


@pytest.mark.parametrize("settings", ["", "[fixed]\npartitions = 1\n"])
def test_settings_that_would_hide_sessions_are_refused(tmp_path: Path, settings: str) -> None:
    """Which partition has a session follows from how many there are."""
    made(tmp_path, partitions=3)
    (tmp_path / "store.toml").write_text(settings)
    with pytest.raises(InvalidArgument, match=r"store\.toml"):
        prepare(FS, tmp_path, Config())


def test_a_region_that_is_missing_is_its_owners_to_report(tmp_path: Path) -> None:
    store = made(tmp_path)
    shutil.rmtree(store.region(0))
    assert prepare(FS, tmp_path, Config()).config.partitions == 2
    assert not store.region(0).exists()


def test_who_opens_a_disk_of_a_deployed_store_is_told_that_it_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On a node ``neverforget verify /data/memory`` called the store damaged, for what was on
    other disks, and did not say that there are others."""
    disk = look(str(tmp_path))
    _, plan = read_plan({"path": "/data", "settings": {"partitions": 2, "embedder": "none"}})
    store_id = "11111111-2222-3333-4444-555555555555"
    describe(disk.path, disk.disk, described(plan, "s", store_id, [disk.disk, "another"]))
    prepare(LocalFileSystem(), tmp_path, Config(partitions=2), create=False)
    assert "is a disk of a deployed store" in caplog.text
