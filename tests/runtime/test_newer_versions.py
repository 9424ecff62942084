"""A store that the next version of this program wrote, opened by this one, and then by that again.

This one reads all of it, or refuses it with the typed error and a message that says what to do.
What it refuses it leaves as it was, byte for byte, but for who holds it (LOCK, ENDPOINT) and how
often it was opened (EPOCH, which is counted before a log is read).
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

import neverforget as nf
from neverforget.actors.messages import PROTOCOL_VERSION, Hello
from neverforget.runtime import connection
from neverforget.runtime.backups import BACKUP_FILE
from neverforget.runtime.config import STORE_TOML
from neverforget.runtime.deployed_disk import DEPLOYED_FILE, describe, look
from neverforget.runtime.deployment import described, read_plan
from neverforget.storage.atomic_file import read_checked, write_checked
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import IDENTITY_FILE
from tests.fakes.plain_host import PlainHost
from tests.runtime.newer_program import SETTINGS, NewerProgram, grow

REMEDY = "newer"  # with that program, or one that is to be installed
WHO = ("LOCK", "EPOCH", "ENDPOINT")


class Version(NamedTuple):
    """``begun``: this program has written to the store before the newer one. Who ``opens`` and who
    ``restores``: whether this program can."""

    module: str
    constant: str
    begun: bool
    opens: bool
    restores: bool


KEPT = [
    Version("storage.identity", "FORMAT_VERSION", begun=False, opens=False, restores=True),
    Version("storage.format", "HEADER_VERSION", begun=True, opens=False, restores=False),
    Version("storage.segment", "SEGMENT_VERSION", begun=False, opens=False, restores=True),
    Version("storage.shipping_object", "OBJECT_VERSION", begun=True, opens=False, restores=False),
    Version("storage.shipping_mark", "_VERSION", begun=False, opens=False, restores=True),
    Version("runtime.replica_settings", "_VERSION", begun=False, opens=True, restores=False),
]
# Of which nothing is lost when it is made anew.
DERIVED = [
    Version("storage.side_file", "SIDE_VERSION", begun=True, opens=True, restores=True),
    Version("storage.table_file", "TABLE_VERSION", begun=True, opens=True, restores=True),
    Version("storage.text_state", "STATE_VERSION", begun=True, opens=True, restores=True),
]


def name_of(version: Version) -> str:
    return f"{version.module}.{version.constant}"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in WHO
    }


@pytest.mark.parametrize("version", KEPT, ids=name_of)
def test_what_a_newer_version_wrote_is_read_or_left_alone(tmp_path: Path, version: Version) -> None:
    read_or_left_alone(tmp_path, version)


@pytest.mark.long
@pytest.mark.parametrize("version", DERIVED, ids=name_of)
def test_and_what_it_derived_is_made_anew(tmp_path: Path, version: Version) -> None:
    read_or_left_alone(tmp_path, version)


def test_nor_is_what_one_that_was_killed_left_in_its_log(tmp_path: Path) -> None:
    """Nothing is repaired before all of it was read: there is no side file yet."""
    path, away = tmp_path / "store", tmp_path / "away"
    away.mkdir()
    with NewerProgram("storage.format", "HEADER_VERSION") as newer:
        expected = newer.grow(path, away, "newer", dies=True)
    before = bytes_of(tmp_path)
    with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
        grow(str(path), str(away), "older")
    assert bytes_of(tmp_path) == before
    with NewerProgram("storage.format", "HEADER_VERSION") as newer:
        assert newer.grow(path, away, "newer again") == added(expected, "newer again")


@pytest.mark.parametrize(
    ("module", "constant", "begun"),
    [
        ("storage.manifest", "MANIFEST_VERSION", True),
        ("storage.embedder_file", "EMBEDDER_VERSION", False),
    ],
)
def test_where_only_the_search_is_of_a_newer_version_all_else_goes_on(
    tmp_path: Path, module: str, constant: str, begun: bool
) -> None:
    """A recall was told to call again later, for ever."""
    path, away = tmp_path / "store", tmp_path / "away"
    away.mkdir()
    if begun:
        grow(str(path), str(away), "older")
    with NewerProgram(module, constant) as newer:
        expected = newer.grow(path, away, "newer")
        derived = bytes_of(path / "longterm" / "0" / "derived-1")
        with nf.open(path, inline=True) as store:
            store.session("chat-0").append("user", "between")
            with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
                store.recall("was here")
            assert len(list(store.memories())) == len(expected["memories"])
        assert bytes_of(path / "longterm" / "0" / "derived-1") == derived
        expected["chat-0"].append("between")
        assert newer.grow(path, away, "newer again") == added(expected, "newer again")


def test_a_backup_and_a_disk_of_a_newer_version_are_not_taken_for_damaged(tmp_path: Path) -> None:
    """What a later version adds to DEPLOYED would be lost with the next description."""
    with nf.open(tmp_path / "store", inline=True, **SETTINGS) as store:
        store.backup(tmp_path / "backup")
    raised(tmp_path / "backup" / BACKUP_FILE)
    for look_at in (nf.backups, nf.verify_backup):
        with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
            look_at(tmp_path / "backup")
    disk = look(str(tmp_path / "disk"))
    raised(tmp_path / "disk" / DEPLOYED_FILE)
    before = bytes_of(tmp_path / "disk")
    _, plan = read_plan({"path": "$DATA", "settings": {"partitions": 1}})
    made = described(plan, "s", "11111111-2222-3333-4444-555555555555", [disk.disk])
    for act in (lambda: look(disk.path), lambda: describe(disk.path, disk.disk, made)):
        with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
            act()
    assert bytes_of(tmp_path / "disk") == before


def raised(file: Path) -> None:
    """It says that it is of the next version, and something that this one does not know."""
    said = json.loads(read_checked(LocalFileSystem(), file))
    said |= {"version": said["version"] + 1, "later": True}
    write_checked(LocalFileSystem(), file, json.dumps(said).encode() + b"\n")


def test_an_owner_and_a_client_of_two_versions_do_not_talk(
    host: PlainHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = partial(Hello, version=PROTOCOL_VERSION + 1)
    monkeypatch.setattr(connection, "Hello", newer)
    with pytest.raises(nf.UnsupportedFormat, match="use the same version of neverforget"):
        nf.open(host.store.path, host="never").session("chat").append("user", "hello")


def test_settings_of_a_newer_version_do_not_hide_that_it_is_one(tmp_path: Path) -> None:
    """It was called a mistake in store.toml, which somebody would have corrected."""
    with nf.open(tmp_path / "store", inline=True, **SETTINGS):
        pass
    identity = tmp_path / "store" / IDENTITY_FILE
    said = json.loads(read_checked(LocalFileSystem(), identity))
    said["format_version"] += 1
    write_checked(LocalFileSystem(), identity, json.dumps(said).encode() + b"\n")
    with (tmp_path / "store" / STORE_TOML).open("a") as file:
        file.write("\n[later]\nsetting = 1\n")
    with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
        nf.open(tmp_path / "store", inline=True)


def read_or_left_alone(folder: Path, version: Version) -> None:
    path, away = folder / "store", folder / "away"
    away.mkdir()
    place = str(path), str(away)
    if version.begun:
        grow(*place, "older")
    with NewerProgram(version.module, version.constant) as newer:
        expected = newer.grow(path, away, "newer")
        before = bytes_of(folder)
        if version.opens:
            expected = added(expected, "older again")
            assert grow(*place, "older again") == expected
        else:
            for _ in range(2):
                with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
                    grow(*place, "older again")
                assert bytes_of(folder) == before
        objects = bytes_of(away)
        if not version.restores:
            with pytest.raises(nf.UnsupportedFormat, match=REMEDY):
                nf.restore(folder / "restored", str(away))
            assert bytes_of(away) == objects, "whoever serves it was fenced"
        expected = added(expected, "newer again")
        assert newer.grow(path, away, "newer again") == expected
        if version.restores:
            report = nf.restore(folder / "restored", str(away))
            assert report.turns == sum(map(len, expected.values())) - report.memories
            expected = added(expected, "restored")
            assert grow(str(folder / "restored"), str(away), "restored") == expected


def added(grown: dict[str, list[str]], said: str) -> dict[str, list[str]]:
    turns = [f"{said} {turn}" for turn in range(3)]
    more = {name: [*texts, *turns] for name, texts in grown.items() if name != "memories"}
    return {**more, "memories": sorted([*grown["memories"], f"{said} was here"])}
