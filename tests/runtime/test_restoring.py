"""A store whose directory is lost comes back from its replica; what ``verify --remote`` finds."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import restoring
from neverforget.runtime.restoring import restore
from neverforget.runtime.store_directory import RESTORING
from neverforget.storage.errors import OwnerFenced, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.shipping_object import OBJECT_HEADER_BYTES
from tests.runtime.cli_calls import Cli
from tests.runtime.test_replica import held, objects, opened, texts


def filled(path: Path, away: Path) -> None:
    """40 sessions over two partitions, five turns each, and two memories; one turn is erased."""
    with opened(path, away, partitions=2, tokenizer="o200k_base") as store:
        for number in range(40):
            chat = store.session(f"chat-{number}")
            chat.append_many([{"role": "user", "content": f"{number}: {n}"} for n in range(5)])
        store.remember("Oslo is wet")
        memory = store.remember("a secret")
        store.erase(memory.id, confirm=nf.CONFIRMED, by="ada")
        store.session("chat-0").erase([3], confirm=nf.CONFIRMED, by="ada")


def test_everything_comes_back_and_goes_on(tmp_path: Path) -> None:
    filled(tmp_path / "store", tmp_path / "away")
    shutil.rmtree(tmp_path / "store")
    report = restore(tmp_path / "store", f"file://{tmp_path / 'away'}")
    assert (report.sessions, report.turns, report.memories) == (40, 200, 1)
    with nf.open(tmp_path / "store", inline=True) as store:
        assert (store.config.partitions, store.config.tokenizer) == (2, "o200k_base")
        for number in range(1, 40):
            assert texts(store, f"chat-{number}") == [f"{number}: {n}" for n in range(5)]
        assert store.session("chat-0").get(3).state == "erased"
        assert [memory.text for memory in store.memories()] == ["Oslo is wet"]
        store.session("chat-1").append("user", "on", sync="replica")
        assert store.verify().ok


def test_the_owner_that_was_there_before_is_fenced(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as lost:
        lost.session("chat").append("user", "one", sync="replica")
        restore(tmp_path / "new", f"file://{tmp_path / 'away'}")
        with pytest.raises(OwnerFenced):
            lost.session("chat").append("user", "two", sync="replica")
        with nf.open(tmp_path / "new", inline=True) as store:
            store.session("chat").append("user", "three", sync="replica")
            assert texts(store) == ["one", "three"]


def test_an_interrupted_one_is_no_store_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "store", tmp_path / "away")
    url = f"file://{tmp_path / 'away'}"

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("make_again", "_take_over"):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(restoring, step, die)
            restore(tmp_path / "new", url)
        assert (tmp_path / "new" / RESTORING).exists()
    with pytest.raises(UnsupportedFormat, match="restore"):
        nf.open(tmp_path / "new", inline=True)
    assert restore(tmp_path / "new", url).turns == 200
    with nf.open(tmp_path / "new", inline=True) as store:
        assert texts(store, "chat-7") == [f"7: {n}" for n in range(5)]


def test_of_two_at_once_both_know_a_log_that_was_never_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each invented an id for the log of memories; whoever came second was refused, for ever."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    shutil.rmtree(tmp_path / "store")
    assert not list((tmp_path / "away").glob("*/longterm-0"))
    url = f"file://{tmp_path / 'away'}"
    real = restoring.open_all

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(restoring, "open_all", interrupted)
        restore(tmp_path / "second", url)
    assert restore(tmp_path / "first", url).turns == 1
    interrupted_anywhere(tmp_path / "second", url, monkeypatch)
    assert restoring.open_all is real and restore(tmp_path / "second", url).turns == 1
    with nf.open(tmp_path / "second", inline=True) as store:
        store.remember("Oslo is wet", sync="replica")
        assert texts(store) == ["one"] and store.verify(remote=True).ok


def interrupted_anywhere(path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each name that it gives or takes away, it goes on from there."""
    left = 0

    def counted(real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            nonlocal left
            mine = threading.current_thread() is threading.main_thread()
            for before in (True, False):
                left -= mine
                if mine and not left:
                    raise KeyboardInterrupt
                if before:
                    real(*arguments)

        return call

    at = 0
    while True:
        at += 1
        copy = path.with_name(f"{path.name}-{at}")
        shutil.copytree(path, copy)
        left = at
        with monkeypatch.context() as patched:
            patched.setattr(LocalFileSystem, "rename", counted(LocalFileSystem.rename))
            patched.setattr(LocalFileSystem, "unlink", counted(LocalFileSystem.unlink))
            patched.setattr(shutil, "rmtree", counted(shutil.rmtree))
            try:
                restore(copy, url)
                break
            except KeyboardInterrupt:
                if not (copy / RESTORING).exists():
                    break  # it was done
        assert restore(copy, url).turns == 1, at
    assert at > 10


def test_it_needs_an_empty_folder_and_a_store_that_is_there(tmp_path: Path) -> None:
    filled(tmp_path / "store", tmp_path / "away")
    with pytest.raises(UnsupportedFormat, match="directory already; give a new or empty folder"):
        restore(tmp_path / "store", f"file://{tmp_path / 'away'}")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(UnsupportedFormat, match="not empty"):
        restore(tmp_path / "full", f"file://{tmp_path / 'away'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(nf.NotFound, match="no store"):
        restore(tmp_path / "new", f"file://{tmp_path / 'empty'}")


def test_a_folder_may_be_given_by_its_path(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--list`` and ``--at`` took one, and ``restore`` said that it wants a URL."""
    filled(tmp_path / "store", tmp_path / "away")
    monkeypatch.chdir(tmp_path)
    assert cli("restore", "again", "--from", "away").code == 0
    shutil.rmtree(tmp_path / "store")
    monkeypatch.chdir("/")
    with nf.open(tmp_path / "again", inline=True) as store:
        assert store.config.replica == f"file://{tmp_path}/away"
        assert store.session("chat-1").append("user", "on", sync="replica").seq == 5


def test_of_several_stores_one_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with opened(tmp_path / name, tmp_path / "away") as store:
            store.session("chat").append("user", name, sync="replica")
            store_id = store.status().store_id
    url = f"file://{tmp_path / 'away'}"
    with pytest.raises(nf.InvalidArgument, match="2 stores"):
        restore(tmp_path / "new", url)
    assert restore(tmp_path / "new", url, store_id=store_id).store_id == store_id
    with nf.open(tmp_path / "new", inline=True) as store:
        assert texts(store) == ["b"]


# ---- at the command line -------------------------------------------------------------------------


def test_the_commands(tmp_path: Path, cli: Cli) -> None:
    filled(tmp_path / "store", tmp_path / "away")
    shutil.rmtree(tmp_path / "store")
    ran = cli("restore", tmp_path / "store", "--from", f"file://{tmp_path / 'away'}")
    assert ran.code == 0 and "turns: 200, memories: 1" in ran.out
    ran = cli("verify", tmp_path / "store", "--remote")
    assert ran.code == 0 and "objects" in ran.out, ran
    ran = cli("status", tmp_path / "store")
    assert ran.code == 0 and "everything" in ran.out and "behind" in ran.out, ran
    ran = cli("config", tmp_path / "store", "--json")
    assert ran.json["replica"]["value"] == f"file://{tmp_path / 'away'}"


def test_where_it_is_shipped_to_is_not_folded_in_a_pipe(tmp_path: Path, cli: Cli) -> None:
    away = tmp_path / ("away" * 30)
    opened(tmp_path / "store", away).close()
    ran = cli("status", tmp_path / "store")
    assert ran.out.count(str(away)) == 2, ran  # of one partition and the memories


def test_verify_finds_what_is_wrong_in_the_replica(tmp_path: Path, cli: Cli) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        for number in range(4):
            store.session("chat").append("user", f"said {number}", sync="replica")
    assert held(tmp_path / "away").count(b"said") == 4
    (flipped,) = [p for p in objects(tmp_path / "away") if b"said 2" in p.read_bytes()]
    whole = flipped.read_bytes()
    flipped.write_bytes(whole.replace(b"said 2", b"said 7"))
    ran = cli("verify", tmp_path / "store", "--remote")
    assert ran.code == 1 and "bad_object" in ran.out, ran
    flipped.unlink()
    ran = cli("verify", tmp_path / "store", "--remote")
    assert ran.code == 1 and "object_missing" in ran.out, ran
    assert len(whole) > OBJECT_HEADER_BYTES


def test_verify_without_a_replica_says_so(tmp_path: Path, cli: Cli) -> None:
    nf.open(tmp_path / "store", inline=True, embedder="none").close()
    ran = cli("verify", tmp_path / "store", "--remote")
    assert ran.code == 2 and "settings.replica" in ran.err
