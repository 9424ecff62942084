"""Backups: what they are made of, listing and checking them as they lie there, and opening them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

import neverforget as nf
from neverforget.actors import checks
from neverforget.actors.backup_messages import ReadCopy
from neverforget.runtime import backups, gathering
from neverforget.runtime.backups import BACKUP_FILE
from neverforget.runtime.operation import Call
from neverforget.storage.copy_list import CopyFile
from neverforget.storage.identity import IDENTITY_FILE
from tests.runtime.cli_calls import Cli
from tests.runtime.test_replica import opened, texts


def filled(path: Path, away: Path) -> nf.Store:
    """200 turns in two partitions, two memories, and one turn that was erased."""
    store = opened(path, away, partitions=2)
    for number in range(20):
        chat = store.session(f"chat-{number}")
        chat.append_many([{"role": "user", "content": f"{number}: {n}"} for n in range(10)])
    store.session("chat-0").erase([3], confirm=nf.CONFIRMED, by="ada")
    store.remember("Oslo is wet")
    store.remember("Rome is hot")
    return store


def every_byte(folder: Path) -> dict[str, bytes]:
    found = folder.rglob("*")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.is_file()}


def test_it_is_checked_as_it_lies_there_and_nothing_in_it_changes(tmp_path: Path) -> None:
    with filled(tmp_path / "store", tmp_path / "away") as store:
        store.backup(tmp_path / "backup")
        before = every_byte(tmp_path / "backup")
        report = nf.verify_backup(tmp_path / "backup")
        assert report.ok and not report.findings
        assert report.records >= 200 + 20 + 2
        assert every_byte(tmp_path / "backup") == before
        with pytest.raises(nf.NotFound, match="no complete backup"):
            nf.verify_backup(tmp_path / "store")


def test_they_are_listed_with_whether_somebody_opened_them(tmp_path: Path) -> None:
    kept = tmp_path / "backups"
    with filled(tmp_path / "store", tmp_path / "away") as store:
        for name in ("monday", "tuesday"):
            store.backup(kept / name)
        store_id = store.status().store_id
    (kept / "none").mkdir()
    with nf.open(kept / "monday", inline=True) as store:
        assert store.get(store.memories()[0].id)
    found = nf.backups(kept)
    assert [(Path(each.path).name, each.opened) for each in found] == [
        ("monday", True),
        ("tuesday", False),
    ]
    assert {each.store_id for each in found} == {store_id}
    assert found[0].at < found[1].at and found[0].partitions == 2 and found[0].bytes > 10_000
    assert nf.backups(kept / "tuesday") == found[1:]
    with pytest.raises(nf.NotFound, match="opened as a store since"):
        nf.verify_backup(kept / "monday")
    with pytest.raises(nf.NotFound):
        nf.backups(tmp_path / "nowhere")


def test_one_that_is_not_complete_counts_for_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "store", tmp_path / "away") as store:
        store.backup(tmp_path / "backup")
    (tmp_path / "backup" / IDENTITY_FILE).unlink()
    assert not nf.backups(tmp_path)


def test_an_interrupted_one_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All partitions were copied, and the memories were not: it opened, as a store without them."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with filled(tmp_path / "store", tmp_path / "away") as store:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(backups, "end_backup", die)
            store.backup(tmp_path / "backup")
        with pytest.raises(nf.UnsupportedFormat, match="backed up"):
            nf.open(tmp_path / "backup", inline=True)
        assert not nf.backups(tmp_path)
        shutil.rmtree(tmp_path / "backup")
        store.backup(tmp_path / "backup")
    assert nf.verify_backup(tmp_path / "backup").ok


def test_it_opens_without_a_replica_and_the_first_store_goes_on(tmp_path: Path) -> None:
    """A copy that shipped under the same name would be a second history in the same place."""
    with filled(tmp_path / "store", tmp_path / "away") as store:
        store.backup(tmp_path / "backup")
        with nf.open(tmp_path / "backup", inline=True) as copy:
            assert copy.config.replica is None
            assert copy.session("chat-7").append("user", "on").seq == 10
            assert copy.verify().ok
        store.session("chat-7").append("user", "here", sync="replica")
        assert texts(store, "chat-7")[-1] == "here"
    assert "# replica = " in (tmp_path / "backup" / "store.toml").read_text()


@pytest.mark.parametrize("where", ["turn", "last", "cut", "identity", "memory"])
def test_what_rots_in_one_is_found(tmp_path: Path, where: str) -> None:
    with filled(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat-0")
        chat.append("user", "the very last turn of all")
        store.backup(tmp_path / "backup")
    backup = tmp_path / "backup"
    regions = sorted((backup / "regions").glob("p*"))
    (holding,) = [
        r for r in regions for f in r.rglob("*.seg") if b"the very last" in f.read_bytes()
    ]
    segment = sorted((holding / "log").glob("*.seg"))[-1]
    if where == "memory":
        segment = sorted((backup / "longterm" / "0" / "log").glob("*.seg"))[-1]
    words = {"turn": b"0: 5", "last": b"the very last", "memory": b"Oslo is wet"}
    if where in words:
        content = segment.read_bytes()
        at = content.index(words[where])
        segment.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif where == "cut":
        content = segment.read_bytes()
        segment.write_bytes(content[: content.index(b"the very last")])
    else:
        (holding / IDENTITY_FILE).write_bytes(b"{}\n")
    report = nf.verify_backup(backup)
    assert not report.ok and report.findings, report


def test_the_commands(tmp_path: Path, cli: Cli) -> None:
    filled(tmp_path / "store", tmp_path / "away").close()
    assert cli("backup", tmp_path / "store", tmp_path / "kept" / "one").code == 0
    ran = cli("backups", tmp_path / "kept")
    assert ran.code == 0 and "one" in ran.out and "opened since" not in ran.out, ran
    before = every_byte(tmp_path / "kept" / "one")
    ran = cli("verify", tmp_path / "kept" / "one")
    assert (
        ran.code == 0 and "records" in ran.out and every_byte(tmp_path / "kept" / "one") == before
    )
    ran = cli("backups", tmp_path / "kept", "--json")
    assert [info["opened"] for info in ran.json] == [False]
    assert cli("tail", tmp_path / "kept" / "one", "chat-1").code == 0
    assert cli("backups", tmp_path / "kept", "--json").json[0]["opened"] is True
    assert cli("verify", tmp_path / "kept" / "one").code == 0
    shutil.copytree(tmp_path / "kept" / "one", tmp_path / "copy")
    (tmp_path / "copy" / BACKUP_FILE).write_bytes(b"rotten")
    assert cli("backups", tmp_path / "copy").code == 1


# ---- gathered piece by piece, as of a deployed store ---------------------------------------------


def gathered(store: nf.Store, target: Path) -> list[gathering.Copied]:
    (target / "regions").mkdir(parents=True)
    (target / "longterm").mkdir()
    copy = gathering.gather(store._context, target / "regions", target / "longterm" / "0", None)
    return store._run(copy)


def logs_in(folder: Path) -> dict[str, bytes]:
    return {n: b for n, b in every_byte(folder).items() if n.endswith(".seg")}


def test_gathered_it_is_what_the_owners_would_have_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PIECE_BYTES", 10_000)
    with filled(tmp_path / "store", tmp_path / "away") as store:
        store.settle()
        store.backup(tmp_path / "copied")
        done = gathered(store, tmp_path / "gathered")
    assert len(done) == 3 and all(each.bytes > each.durable > 0 for each in done)
    copied, later = logs_in(tmp_path / "copied"), logs_in(tmp_path / "gathered")
    assert copied.keys() == later.keys()
    for name, log in copied.items():  # an idle owner may have proven its last group since
        assert later[name].startswith(log.rstrip(b"\0"))
    assert set(every_byte(tmp_path / "gathered")) == set(every_byte(tmp_path / "copied")) - {
        BACKUP_FILE,
        IDENTITY_FILE,
        "store.toml",
    }


def test_what_is_erased_meanwhile_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gathering._file
    erased: list[str] = []
    with filled(tmp_path / "store", tmp_path / "away") as store:

        def erasing(fs: Any, owner: int, target: Path, file: CopyFile) -> Any:
            yield from real(fs, owner, target, file)
            if not erased and b"13: 5" in (target / file.name).read_bytes():
                erased.append(file.name)
                store.session("chat-13").erase([5], confirm=nf.CONFIRMED, by="ada")

        monkeypatch.setattr(gathering, "_file", erasing)
        gathered(store, tmp_path / "gathered")
    assert erased and not any(b"13: 5" in b for b in every_byte(tmp_path / "gathered").values())


def test_a_piece_that_changed_on_its_way_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path / "store", tmp_path / "away") as store:
        monkeypatch.setattr(checks, "crc32c", lambda data: crc32c(data) ^ 1)
        with pytest.raises(nf.Corrupt, match="on its way"):
            gathered(store, tmp_path / "gathered")
    assert not list((tmp_path / "gathered").rglob(IDENTITY_FILE))


def test_only_files_of_a_copy_are_given_away(tmp_path: Path) -> None:
    with filled(tmp_path / "store", tmp_path / "away") as store:

        def asked(name: str) -> Any:
            return (yield Call(0, ReadCopy(0, name, 0, 100)))

        for name in ("../../store.toml", "/etc/passwd", "log/../IDENTITY", "LOCK"):
            with pytest.raises(nf.InvalidArgument, match="no piece"):
                store._run(asked(name))
