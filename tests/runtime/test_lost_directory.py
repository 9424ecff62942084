"""The directory of a store in use is deleted, renamed or replaced. Whoever has it open notices,
says so, and lets go of it; nobody joins what is left; the path is free.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.config import Config
from neverforget.runtime.inline import open_inline
from tests.fakes.plain_host import PlainHost
from tests.runtime.conftest import SMALL, filled, seqs


def refused(chat: nf.Session) -> nf.Corrupt:
    """Appends until the owner has noticed, which takes it a second."""
    for n in range(1_000_000):
        try:
            chat.append("user", f"lost {n}", sync="process")
        except nf.Corrupt as error:
            return error
    raise AssertionError("appends to a deleted store go on being acknowledged")


@pytest.mark.parametrize("fate", ["deleted", "renamed"])
def test_appends_to_a_store_that_is_gone_are_refused(tmp_path: Path, fate: str) -> None:
    """They went on for ever, acknowledged as durable, into files without a name."""
    path, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    with nf.open(path, inline=True, **SMALL) as store:
        chat = filled(store.session("chat"), 3)
        if fate == "deleted":
            shutil.rmtree(path)
        else:
            path.rename(elsewhere)
        error = refused(chat)
        assert str(path) in str(error)
        assert "deleted, renamed" in str(error) and "may be lost" in str(error)
        for owner in store.status().owners:
            assert owner.state in ("serving", "quarantined")
        if fate == "renamed":  # it was given back: it can be used under its new name at once
            with nf.open(elsewhere, inline=True) as found:
                assert seqs(found.session("chat"))[:3] == [0, 1, 2]
    assert not path.exists()


def test_nobody_joins_what_is_left_of_a_deleted_store(tmp_path: Path) -> None:
    """Opening the path again in the same process gave another handle on the dead store."""
    path = tmp_path / "store"
    old = nf.open(path, inline=True, **SMALL)
    filled(old.session("chat"), 3)
    shutil.rmtree(path)
    with nf.open(path, inline=True, **SMALL) as new:
        assert new.status().store_id != old.status().store_id
        assert len(new.session("chat")) == 0
        filled(new.session("chat"), 1)
        with pytest.raises(nf.Corrupt, match="quarantined"):
            old.session("chat").append("user", "x")
        old.close()  # takes nothing from the new one: neither its ENDPOINT nor its lock
        with nf.open(path, inline=True) as same:
            assert seqs(same.session("chat")) == [0]
    with nf.open(path, inline=True) as again:
        assert seqs(again.session("chat")) == [0]
        assert again.verify().ok


def test_a_backup_put_in_the_place_of_an_open_store_is_another_store(tmp_path: Path) -> None:
    path, copy = tmp_path / "store", tmp_path / "copy"
    old = nf.open(path, inline=True, **SMALL)
    filled(old.session("chat"), 2)
    old.backup(copy)
    filled(old.session("chat"), 2)
    path.rename(tmp_path / "broken")
    copy.rename(path)
    with nf.open(path, inline=True) as new:
        assert new.status().store_id == old.status().store_id
        assert seqs(new.session("chat")) == [0, 1]
        with pytest.raises(nf.Corrupt, match="renamed or replaced"):
            old.session("chat").append("user", "x")
    old.close()


def test_an_inline_host_gives_up_a_store_whose_lock_file_was_deleted(tmp_path: Path) -> None:
    """Otherwise a second owner would take the new LOCK while the first one goes on."""
    first = open_inline(tmp_path / "store", Config(**SMALL))
    (tmp_path / "store" / "LOCK").unlink()
    second = open_inline(tmp_path / "store")
    assert [p.state for p in first.partitions] == ["quarantined", "quarantined"]
    assert [p.state for p in second.partitions] == ["serving", "serving"]
    first.close()
    second.close()


def test_a_process_that_attached_to_a_deleted_store_finds_the_new_one(short_path: Path) -> None:
    path = short_path / "store"
    first = PlainHost(path, Config(**SMALL))
    old = nf.open(path, host="never", deadline_s=10.0)
    filled(old.session("chat"), 3)
    path.rename(short_path / "elsewhere")
    second = PlainHost(path, Config(**SMALL))
    with nf.open(path, host="never") as new:
        assert new.status().store_id == second.store.store_id != first.store.store_id
        assert len(new.session("chat")) == 0
        first.close()
        with pytest.raises(nf.UnsupportedFormat, match=r"(is|serves) store"):
            old.session("chat").append("user", "x")
    old.close()
    second.close()
