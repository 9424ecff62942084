"""Plans and descriptions of deployed stores. No Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.deployed_disk import describe, look, read_disk
from neverforget.runtime.deployment import described, read_plan, split_address, updated

SETTINGS = {"partitions": 5, "embedder": "none", "segment_bytes": 1 << 20}


def plan(**more: Any) -> dict[str, Any]:
    return {"path": "/data", "settings": dict(SETTINGS), **more}


def test_partitions_are_spread_in_turn_and_the_memories_go_where_there_is_room() -> None:
    _, asked = read_plan(plan())
    found = described(asked, "s", "id", ["a", "b", "c"])
    assert found.partitions == ("a", "b", "c", "a", "b")
    assert found.longterm == "c"


def test_what_was_fixed_stays_and_host_settings_may_change() -> None:
    _, asked = read_plan(plan())
    made = described(asked, "s", "id", ["a"])
    assert updated(made, asked) == made
    for fixed in ({"partitions": 6}, {"tokenizer": "o200k_base"}, {"embedder": "minilm"}):
        _, other = read_plan(plan(settings={**SETTINGS, **fixed}))
        with pytest.raises(nf.InvalidArgument, match="fixed"):
            updated(made, other)
    _, other = read_plan(plan(settings={**SETTINGS, "sync_interval_ms": 50}))
    later = updated(made, other)
    assert later.version == made.version + 1 and later.config.sync_interval_ms == 50
    _, fewer = read_plan(plan(settings={"segment_bytes": 1 << 20}))  # the rest is fixed
    assert updated(made, fewer) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"path": "data"},
        {"path": "/data", "nodes": 0},
        {"path": "/data", "resource": "two words"},
        {"path": "/data", "settings": {"partitions": 0}},
        {"path": "/data", "settings": {"sync": "disk"}},
        {"path": "/data", "settings": {"no_such": 1}},
        {"path": "/data", "replicas": 3},
        {"path": "/data", "settings": {"embedder": "object:mine"}},
        {"path": "/data", "name": "no/name"},
    ],
)
def test_what_is_no_plan_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(nf.InvalidArgument):
        read_plan(wrong)


def test_a_plan_that_is_wrong_is_told_what_it_may_have() -> None:
    for wrong in ({"node": 2}, {"failover": "autom"}):
        with pytest.raises(nf.InvalidArgument, match=r'failover_after_s.*"manual" or "auto"'):
            read_plan({"path": "/data", **wrong})


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "memory.toml"
    file.write_text('name = "memory"\npath = "$DATA"\n[label]\nmemory = "yes"\n')
    name, found = read_plan(file)
    assert (name, found.place) == ("memory", ("$DATA", "", {"memory": "yes"}))
    with pytest.raises(nf.InvalidArgument, match="cannot be read"):
        read_plan(tmp_path / "none.toml")
    assert split_address("ray:memory") == ("memory", "auto")
    assert split_address("ray:memory@10.0.0.1:6379") == ("memory", "10.0.0.1:6379")


def test_a_folder_becomes_a_disk_once_and_takes_no_other_store(tmp_path: Path) -> None:
    disk = look(str(tmp_path / "d"))
    assert look(str(tmp_path / "d")) == disk
    _, asked = read_plan(plan())
    made = described(asked, "s", "11111111-2222-3333-4444-555555555555", [disk.disk])
    describe(disk.path, disk.disk, made)
    describe(disk.path, disk.disk, made)  # interrupted and repeated
    assert sorted(p.name for p in (tmp_path / "d" / "regions").iterdir()) == [
        f"p{n}" for n in range(5)
    ]
    assert read_disk(tmp_path / "d").description == made
    other = described(asked, "s", "99999999-2222-3333-4444-555555555555", [disk.disk])
    with pytest.raises(nf.UnsupportedFormat, match="already"):
        describe(disk.path, disk.disk, other)
    with pytest.raises(nf.UnsupportedFormat, match="holds the disk"):
        describe(disk.path, "another", made)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters.txt").write_text("Dear")
    with pytest.raises(nf.UnsupportedFormat, match="not empty"):
        look(str(tmp_path / "full"))
    with nf.open(tmp_path / "store", inline=True):
        pass
    with pytest.raises(nf.UnsupportedFormat, match="not empty"):
        look(str(tmp_path / "store"))


def test_a_node_without_the_variable_of_the_path_is_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder called ``$NF_DATA`` was made where its Ray had been started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NF_DATA", raising=False)
    for path in ("$NF_DATA/memory", "${NF_DATA}", f"{tmp_path}/$NF_DATA/memory", "~nobody-here/x"):
        with pytest.raises(nf.InvalidArgument, match="set what it names"):
            look(path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("NF_DATA", str(tmp_path / "data"))
    assert look("$NF_DATA/memory").path == str((tmp_path / "data" / "memory").resolve())


def test_a_region_that_is_missing_later_is_never_made_anew(tmp_path: Path) -> None:
    import shutil

    import msgspec

    disk = look(str(tmp_path / "d"))
    _, asked = read_plan(plan())
    made = described(asked, "s", "11111111-2222-3333-4444-555555555555", [disk.disk])
    describe(disk.path, disk.disk, made)
    shutil.rmtree(tmp_path / "d" / "regions" / "p1")
    describe(disk.path, disk.disk, msgspec.structs.replace(made, state="made", version=2))
    assert not (tmp_path / "d" / "regions" / "p1").exists()
    describe(disk.path, disk.disk, made)  # of before: nothing comes back to life
    assert not (tmp_path / "d" / "regions" / "p1").exists()
