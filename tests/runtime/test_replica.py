"""Stores whose logs are shipped to a folder: real files, real owners, inline and attached."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors import replica_spec
from neverforget.runtime import retrying
from neverforget.storage import shipper
from neverforget.storage.errors import OwnerFenced
from neverforget.storage.object_folder import FolderStore
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_object import OBJECT_HEADER_BYTES
from tests.runtime.conftest import SMALL

PATIENCE_S = 30.0
HASTY_S = 1.0  # for what can only fail, in time to say why
ONE: dict[str, Any] = {**SMALL, "partitions": 1, "embedder": "none"}


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners find out within 200 ms that the replica is gone, and that it is back."""
    often = partial(ShippingOptions, unreachable_after_us=200_000, retry_us_max=200_000)
    monkeypatch.setattr(replica_spec, "ShippingOptions", often)


def erasing_fails(erase: Callable[[], object], match: str = "erasure") -> None:
    """Its owner waits for a replica that may answer, never for one that is known not to."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(nf.Unavailable, match=match):
        patch.setattr(shipper, "CONFIRM_S", 1e6)
        erase()


def opened(path: Path, replica: Path, **how: Any) -> nf.Store:
    return nf.open(path, inline=True, agent="ada", replica=f"file://{replica}", **{**ONE, **how})


def until(true: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not true():
        assert time.monotonic() < deadline, "in vain"
        pause.wait(0.01)


def objects(replica: Path, log: str = "partition-0") -> list[Path]:
    (found,) = replica.glob(f"*/{log}")
    return sorted(found.iterdir())


def held(replica: Path, log: str = "partition-0") -> bytes:
    """The records that the objects hold, one after the other."""
    return b"".join(path.read_bytes()[OBJECT_HEADER_BYTES:] for path in objects(replica, log))


def texts(store: nf.Store, session: str = "chat") -> list[str]:
    return [turn.content for turn in store.session(session)]


# ---- acknowledging -------------------------------------------------------------------------------


def test_what_is_acknowledged_at_replica_is_in_an_object(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        for number in range(5):
            text = f"said {number}"
            chat.append("user", text, sync="replica")
            assert text.encode() in held(tmp_path / "away")
        chat.append_many([{"role": "user", "content": "many"}], sync="replica")
        assert b"many" in held(tmp_path / "away")
        store.remember("Oslo is wet", sync="replica")
        assert b"Oslo is wet" in held(tmp_path / "away", "longterm-0")


def test_a_handle_may_want_it_of_every_append(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away", sync="replica") as store:
        store.session("chat").append("user", "by default")
        assert b"by default" in held(tmp_path / "away")


def test_what_is_durable_here_is_shipped_a_second_later(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "on its way")
        until(lambda: b"on its way" in held(tmp_path / "away"))
        until(lambda: store.status().owners[0].replica.lag_bytes == 0)  # type: ignore[union-attr]


def test_an_orderly_end_ships_the_rest(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "the last word")
    assert b"the last word" in held(tmp_path / "away")


def test_a_repeat_waits_for_what_it_repeats(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        first = chat.append("user", "once", key="k")
        again = chat.append("user", "once", key="k", sync="replica")
        assert again.seq == first.seq and b"once" in held(tmp_path / "away")


def test_many_threads_share_objects_and_keep_their_order(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:

        def say(name: str) -> None:
            for number in range(20):
                store.session(name).append("user", f"{name} {number}", sync="replica")

        threads = [threading.Thread(target=say, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in ("s0", "s1", "s2", "s3"):
            assert texts(store, name) == [f"{name} {number}" for number in range(20)]


def test_without_a_replica_the_level_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with nf.open(tmp_path / "store", inline=True, **ONE) as store:
        chat = store.session("chat")
        for refused in (
            lambda: chat.append("user", "x", sync="replica"),
            lambda: chat.append_many([{"role": "user", "content": "x"}], sync="replica"),
            lambda: store.remember("x", sync="replica"),
        ):
            with pytest.raises(nf.InvalidArgument, match=r"replica=.*settings.replica"):
                refused()
        assert len(chat) == 0 and store.status().owners[0].replica is None


def test_status_says_how_far_it_is(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "x", sync="replica")
        replica = store.status().owners[0].replica
        assert replica is not None and (replica.state, replica.error) == ("everything", None)
        assert replica.objects >= 2 and replica.shipped_bytes > 0
        until(lambda: store.status().longterm.replica is not None)


# ---- opening -------------------------------------------------------------------------------------


def test_a_log_without_a_record_lacks_nothing_in_the_replica(tmp_path: Path) -> None:
    """What stands in front of its first record counted as shipped, and ``verify`` missed it there.
    An object that was there and is gone is missed."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "said", sync="replica")

        def caught_up() -> bool:
            told = store.status().longterm.replica
            return told is not None and told.state == "everything" and told.lag_bytes == 0

        until(caught_up)
        told = store.status().longterm
        assert told.replica is not None and told.durable_bytes > 0
        assert (told.replica.objects, told.replica.shipped_bytes) == (1, 0)
        assert store.verify(remote=True).ok
        objects(tmp_path / "away")[-1].unlink()
        (found,) = store.verify(remote=True).findings
        assert (found.kind, found.partition) == ("object_missing", 0)


def test_it_is_kept_in_the_settings_and_found_by_the_next_opening(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    with nf.open(tmp_path / "store", inline=True) as store:
        store.session("chat").append("user", "two", sync="replica")
        assert texts(store) == ["one", "two"]


def test_one_that_is_named_later_is_kept_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    """The next host, which named nothing, shipped nothing: an acknowledged turn was on one disk."""
    nf.open(tmp_path / "store", inline=True, **ONE, reflect_after_s=77.0).close()
    file = tmp_path / "store" / "store.toml"
    before = file.read_text().replace("[host]", "[host]  # by hand: as is")
    file.write_text(before)
    with opened(tmp_path / "store", tmp_path / "away", replica_lag_s=9.0) as store:
        store.session("chat").append("user", "one", sync="replica")
    added = f'replica = "file://{tmp_path / "away"}"'
    assert sorted(set(file.read_text().splitlines()) - set(before.splitlines())) == [
        added,
        "replica_lag_s = 9.0",
    ]
    with nf.open(tmp_path / "store", inline=True) as store:
        assert (store.config.replica_lag_s, store.config.reflect_after_s) == (9.0, 77.0)
        store.session("chat").append("user", "two", sync="replica")
    nf.open(tmp_path / "store", inline=True, replica=None).close()
    assert added in file.read_text(), "once without it: that is of one opening"


@pytest.mark.parametrize("content", ["", "[fixed]\npartitions = 1\n", "[client]\nsync = 'disk'\n"])
def test_a_file_without_that_table_gets_it(tmp_path: Path, content: str) -> None:
    nf.open(tmp_path / "store", inline=True, **ONE).close()
    (tmp_path / "store" / "store.toml").write_text(content)
    if "partitions" not in content:
        (tmp_path / "store" / "store.toml").write_text(content + "[fixed]\npartitions = 1\n")
    opened(tmp_path / "store", tmp_path / "away").close()
    with nf.open(tmp_path / "store", inline=True) as store:
        assert store.config.replica == f"file://{tmp_path / 'away'}"


def test_another_bucket_is_no_fresh_start(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    for log in (tmp_path / "away").glob("*/partition-0"):
        shutil.rmtree(log)
    with opened(tmp_path / "store", tmp_path / "away") as store:
        with pytest.raises(nf.Corrupt, match="another bucket"):
            store.session("chat").append("user", "two")
        assert store.status().owners[0].state == "quarantined"


@pytest.mark.usefixtures("looks_often")
def test_nothing_begins_in_the_empty_folder_where_the_replica_is_mounted(tmp_path: Path) -> None:
    """The first memory was acknowledged at "replica" by it, and the partition quarantined, though
    all was well again when the file server was.
    """
    away = tmp_path / "away"
    with opened(tmp_path / "store", away) as store:
        store.session("chat").append("user", "one", sync="replica")
    away.rename(tmp_path / "unmounted")
    away.mkdir()
    with opened(tmp_path / "store", away, deadline_s=PATIENCE_S) as store:
        hasty = store.scoped(deadline=1.0)
        with pytest.raises(nf.Unavailable, match="not mounted"):
            hasty.remember("Oslo is wet", sync="replica")
        with pytest.raises(nf.Unavailable, match="not mounted"):
            hasty.session("chat").append("user", "two", sync="replica")
        assert texts(store) == ["one"] and list(away.iterdir()) == []
        away.rmdir()
        (tmp_path / "unmounted").rename(away)
        with nf.open(tmp_path / "store", inline=True, deadline_s=PATIENCE_S) as patient:
            patient.session("chat").append("user", "two", key="k", sync="replica")
            patient.remember("Oslo is wet", sync="replica")
        assert texts(store) == ["one", "two"]


def test_a_store_that_was_not_shipped_can_be_from_now_on(tmp_path: Path) -> None:
    with nf.open(tmp_path / "store", inline=True, **ONE) as store:
        store.session("chat").append("user", "before")
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "after", sync="replica")
        assert b"before" in held(tmp_path / "away") and b"after" in held(tmp_path / "away")


# ---- a replica that does not answer --------------------------------------------------------------


@pytest.mark.usefixtures("looks_often")
def test_an_owner_that_starts_without_it_serves_reads_until_it_answers(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    (tmp_path / "away").rename(tmp_path / "gone")
    with opened(tmp_path / "store", tmp_path / "away", deadline_s=PATIENCE_S) as store:
        assert texts(store) == ["one"]
        with pytest.raises(nf.Unavailable, match="replica"):
            store.scoped(deadline=HASTY_S).session("chat").append("user", "two")
        assert store.status().owners[0].state == "readonly"
        (tmp_path / "gone").rename(tmp_path / "away")
        until(lambda: store.status().owners[0].state == "serving")
        store.session("chat").append("user", "two", sync="replica")
        assert texts(store) == ["one", "two"]


@pytest.mark.usefixtures("looks_often")
def test_it_writes_alone_where_it_was_told_to(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    (tmp_path / "away").rename(tmp_path / "gone")
    alone: dict[str, Any] = {"replica_unreachable": "write", "deadline_s": PATIENCE_S}
    with opened(tmp_path / "store", tmp_path / "away", **alone) as store:
        chat = store.session("chat")
        chat.append("user", "two")
        hasty = store.scoped(deadline=HASTY_S).session("chat")
        with pytest.raises(nf.Unavailable):
            hasty.append("user", "three", sync="replica", key="k")
        status = store.status().owners[0].replica
        assert status is not None and status.state == "unfenced" and status.error is not None
        (tmp_path / "gone").rename(tmp_path / "away")
        store.scoped(deadline=PATIENCE_S).session("chat").append(
            "user", "three", sync="replica", key="k"
        )
        assert texts(store) == ["one", "two", "three"]
        assert b"two" in held(tmp_path / "away") and b"three" in held(tmp_path / "away")


# ---- another owner -------------------------------------------------------------------------------


def test_of_two_owners_of_copies_only_the_newer_acknowledges(tmp_path: Path) -> None:
    """A disk image was started twice: each owner holds the lock of its own copy."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with opened(tmp_path / "store", tmp_path / "away") as zombie:
        zombie.session("chat").append("user", "two", sync="replica")
        with opened(tmp_path / "copy", tmp_path / "away") as store:
            assert texts(store) == ["one", "two"]
            store.session("chat").append("user", "three", sync="replica")
            with pytest.raises(OwnerFenced):
                zombie.session("chat").append("user", "lost", sync="replica")
            levels: tuple[Any, ...] = ("process", "disk")
            for level in levels:
                with pytest.raises(OwnerFenced):
                    zombie.session("chat").append("user", "lost", sync=level)
            assert zombie.status().owners[0].state == "quarantined"
            store.session("chat").append("user", "four", sync="replica")
            assert texts(store) == ["one", "two", "three", "four"]


def test_the_owner_of_memories_is_fenced_as_well(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.remember("one", sync="replica")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with opened(tmp_path / "store", tmp_path / "away") as zombie:
        zombie.remember("two", sync="replica")
        with opened(tmp_path / "copy", tmp_path / "away") as store:
            store.remember("three", sync="replica")
            with pytest.raises(OwnerFenced):
                zombie.remember("lost", sync="replica")
            with pytest.raises(OwnerFenced):
                zombie.erase_where(namespace=("x",), confirm=nf.CONFIRMED, by="ada")
            assert zombie.status().longterm.state == "quarantined"
            assert {memory.text for memory in store.memories()} == {"one", "two", "three"}


def test_a_copy_without_its_place_takes_nothing_away(tmp_path: Path) -> None:
    """As a backup that is opened elsewhere."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
        store.backup(tmp_path / "backup")
        with opened(tmp_path / "backup", tmp_path / "away") as backup:
            with pytest.raises(OwnerFenced, match="another place"):
                backup.session("chat").append("user", "two")
        store.session("chat").append("user", "two", sync="replica")
        assert texts(store) == ["one", "two"]
    with nf.open(tmp_path / "backup", inline=True, replica=None) as backup:
        assert texts(backup) == ["one"]


# ---- erasing -------------------------------------------------------------------------------------


def test_erasing_reaches_the_objects(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        for text in ("keep this", "a secret", "and this"):
            chat.append("user", text, sync="replica")
        report = chat.erase([1], confirm=nf.CONFIRMED, by="ada")
        assert b"a secret" not in held(tmp_path / "away")
        assert b"keep this" in held(tmp_path / "away") and b"and this" in held(tmp_path / "away")
        assert any("bucket" in text for text in report.unreachable)
        memory = store.remember("another secret", sync="replica")
        store.erase(memory.id, confirm=nf.CONFIRMED, by="ada")
        assert b"another secret" not in held(tmp_path / "away", "longterm-0")


@pytest.mark.usefixtures("looks_often")
def test_an_erasure_waits_for_a_replica_that_does_not_answer(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "a secret", sync="replica")
        (tmp_path / "away").rename(tmp_path / "gone")
        hasty = store.scoped(deadline=HASTY_S).session("chat")
        erasing_fails(lambda: hasty.erase([0], confirm=nf.CONFIRMED, by="ada"))
        assert b"a secret" in held(tmp_path / "gone")
        (tmp_path / "gone").rename(tmp_path / "away")
    with opened(tmp_path / "store", tmp_path / "away") as store:
        assert store.session("chat").get(0).state == "erased"
        assert b"a secret" not in held(tmp_path / "away")


def erase_while_it_is_gone(store: nf.Store, tmp_path: Path) -> None:
    """Two secrets are shipped and the replica goes away: their erasures are on record, and wait."""
    store.session("chat").append("user", "a secret", sync="replica")
    kept = store.remember("another secret", sync="replica")
    (tmp_path / "away").rename(tmp_path / "gone")
    hasty = store.scoped(deadline=HASTY_S)
    erasing_fails(lambda: hasty.session("chat").erase([0], confirm=nf.CONFIRMED, by="ada"))
    erasing_fails(lambda: hasty.erase(kept.id, confirm=nf.CONFIRMED, by="ada"))


@pytest.mark.usefixtures("looks_often")
def test_an_erasure_that_waited_is_done_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "REACH_S_MAX", 0.1)
    with opened(tmp_path / "store", tmp_path / "away", deadline_s=PATIENCE_S) as store:
        erase_while_it_is_gone(store, tmp_path)
        (tmp_path / "gone").rename(tmp_path / "away")
        patient = store.scoped(deadline=PATIENCE_S)
        patient.session("chat").erase([0], confirm=nf.CONFIRMED, by="ada")
        assert b"a secret" not in held(tmp_path / "away")
        other = patient.remember("a third")
        patient.erase(other.id, confirm=nf.CONFIRMED, by="ada")
        assert b"another secret" not in held(tmp_path / "away", "longterm-0")


@pytest.mark.usefixtures("looks_often")
def test_an_erasure_that_waited_is_done_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody repeats it, and the store stays open."""
    monkeypatch.setattr(retrying, "REACH_S_MAX", 0.1)
    with opened(tmp_path / "store", tmp_path / "away", deadline_s=PATIENCE_S) as store:
        erase_while_it_is_gone(store, tmp_path)
        assert b"a secret" in held(tmp_path / "gone")
        (tmp_path / "gone").rename(tmp_path / "away")
        until(lambda: b"a secret" not in held(tmp_path / "away"))
        until(lambda: b"another secret" not in held(tmp_path / "away", "longterm-0"))
        patient = store.scoped(deadline=PATIENCE_S)
        assert patient.session("chat").get(0).state == "erased"
        assert patient.session("chat").append("user", "on", sync="replica").seq == 1
        assert patient.verify(remote=True).ok


@pytest.mark.usefixtures("looks_often")
def test_an_erasure_whose_objects_fail_for_a_while_is_done_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record was shipped; the replica failed between that and the zeroing."""
    answers = threading.Event()
    real = FolderStore.replace

    def replaced(self: FolderStore, key: str, data: bytes, tag: str) -> bool:
        if not answers.is_set():
            raise nf.Unavailable("not now", outcome="not_applied")
        return real(self, key, data, tag)

    monkeypatch.setattr(FolderStore, "replace", replaced)
    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        chat.append("user", "a secret", sync="replica")
        hasty = store.scoped(deadline=HASTY_S).session("chat")
        with pytest.raises(nf.Unavailable):
            hasty.erase([0], confirm=nf.CONFIRMED, by="ada")
        answers.set()
        until(lambda: b"a secret" not in held(tmp_path / "away"))
        assert chat.get(0).state == "erased"


@pytest.mark.usefixtures("looks_often")
def test_nothing_is_zeroed_before_the_record_of_it_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that is fenced erases nothing any more: whoever serves now knows nothing of it."""
    answers = threading.Event()
    real = FolderStore.put_new

    def put(self: FolderStore, *what: Any, **how: Any) -> bool:
        if not answers.is_set():
            raise nf.Unavailable("not now", outcome="not_applied")
        return real(self, *what, **how)

    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        chat.append("user", "a secret", sync="replica")
        monkeypatch.setattr(FolderStore, "put_new", put)
        hasty = store.scoped(deadline=HASTY_S).session("chat")
        erasing_fails(lambda: hasty.erase([0], confirm=nf.CONFIRMED, by="ada"), "on record")
        log = next((tmp_path / "store").glob("regions/p0/log/*.seg"))
        assert b"a secret" in held(tmp_path / "away") and b"a secret" in log.read_bytes()
        answers.set()
        until(lambda: b"a secret" not in held(tmp_path / "away"))
        until(lambda: b"a secret" not in log.read_bytes())


def test_what_was_set_aside_comes_back_and_is_erased_like_anything(tmp_path: Path) -> None:
    """Two owners of copies, one after the other; the first one's last turn was never shipped."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
        store.remember("front", sync="replica")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with opened(tmp_path / "store", tmp_path / "away") as store:
        assert len(store.memories()) == 1
        (tmp_path / "away").rename(tmp_path / "gone")
        store.session("chat").append("user", "a secret")
        store.remember("Oslo is wet")
    (tmp_path / "gone").rename(tmp_path / "away")
    with opened(tmp_path / "copy", tmp_path / "away") as store:
        store.session("chat").append("user", "two", sync="replica")
        store.remember("Bergen is wetter", sync="replica")
    with opened(tmp_path / "store", tmp_path / "away") as store:
        until(lambda: texts(store) == ["one", "two", "a secret"])
        until(lambda: len(store.memories()) == 3)
        assert {hit.memory.text for hit in store.recall("Oslo wet")} >= {"Oslo is wet"}
        found = {finding.kind for finding in store.verify().findings}
        assert found == {"salvaged"} and store.verify().ok
        assert store.session("chat")[2].salvaged_from is not None
        store.session("chat").erase(confirm=nf.CONFIRMED, by="ada")
        region = tmp_path / "store" / "regions" / "p0"
        until(lambda: not list((region / "aside").iterdir()))
        for path in (*objects(tmp_path / "away"), *(p for p in region.rglob("*") if p.is_file())):
            assert b"a secret" not in path.read_bytes(), path


# ---- what is not shipped -------------------------------------------------------------------------


def test_an_idle_owners_proof_is_no_object_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        for number in range(3):
            store.session("chat").append("user", f"{number}", sync="replica")
            # The owner proves its last group 200 ms later; a second later that would be shipped.
            proven = store.status().owners[0].durable_bytes

            def is_longer(than: int = proven) -> bool:
                return store.status().owners[0].durable_bytes > than

            until(is_longer)
        replica = store.status().owners[0].replica
        assert replica is not None and replica.lag_bytes == 0 and replica.objects == 4
    with opened(tmp_path / "store", tmp_path / "away") as store:
        assert texts(store) == ["0", "1", "2"] and store.verify().ok


def test_opening_without_it_later_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path / "store", tmp_path / "away").close()
    nf.open(tmp_path / "store", inline=True, replica=None).close()
    assert "without one now" in caplog.text
