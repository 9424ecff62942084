"""A store as it was at some time: which times there are, what comes back, and what does not."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import restoring_point
from neverforget.storage import shipped_objects
from neverforget.storage.object_store import open_object_store
from neverforget.storage.shipping_object import decode_header
from tests.runtime.cli_calls import Cli
from tests.runtime.test_replica import held, objects, opened, texts


def now() -> datetime:
    """A time between what was shipped before and what is shipped from now on."""
    tick = threading.Event()
    tick.wait(0.002)
    at = datetime.now(UTC)
    tick.wait(0.002)
    return at


def url(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'away'}"


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def points_of(tmp_path: Path, **how: Any) -> nf.RestorePoints:
    return nf.restore_points(url(tmp_path), **how)


# ---- what there is -------------------------------------------------------------------------------


def test_each_log_and_each_time_is_listed(tmp_path: Path) -> None:
    began = datetime.now(UTC)
    with opened(tmp_path / "store", tmp_path / "away", partitions=2) as store:
        for number in range(6):
            chat = store.session(f"chat-{number}")
            chat.append_many(
                [{"role": "user", "content": f"{n}"} for n in range(3)], sync="replica"
            )
        store.remember("Oslo is wet", sync="replica")
        store_id = store.status().store_id
    found = points_of(tmp_path)
    assert found.store_id == store_id
    assert [log.log for log in found.logs] == ["partition-0", "partition-1", "longterm-0"]
    assert sum(log.turns for log in found.logs) == 18 == found.points[-1].turns
    assert found.logs[2].turns == 0 and found.logs[2].objects >= 2
    for log in found.logs:
        assert log.first_at is not None and log.last_at is not None
        assert began <= log.first_at <= log.last_at <= datetime.now(UTC)
    times = [point.at for point in found.points]
    assert times == sorted(set(times)), "in order, each once"
    assert found.points[-1].bytes == sum(log.bytes for log in found.logs)
    assert found.points[-1].objects == sum(log.objects for log in found.logs)
    assert points_of(tmp_path, limit=2).points == found.points[-2:]


def test_times_never_fall_whatever_a_clock_said(tmp_path: Path) -> None:
    """One clock was a year ahead for a while: what it put was there before what came after."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        for number in range(3):
            store.session("chat").append("user", f"{number}", sync="replica")
    prefix = objects(tmp_path / "away")[0].parent.relative_to(tmp_path / "away").as_posix() + "/"
    real = decode_header
    year_us = 365 * 86_400_000_000

    def ahead(data: bytes) -> Any:
        header = real(data)
        return header._replace(made_us=header.made_us + (year_us if header.number == 2 else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipped_objects, "decode_header", ahead)
        found = shipped_objects.read_objects(open_object_store(url(tmp_path)), prefix)
    assert found.made_us == sorted(found.made_us)
    assert found.made_us[1] == found.headers[2].made_us
    assert found.until(found.headers[2].made_us) >= 3


def test_a_hole_among_the_objects_is_told(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        for number in range(3):
            store.session("chat").append("user", f"{number}", sync="replica")
    objects(tmp_path / "away")[1].unlink()
    with pytest.raises(nf.Corrupt, match="0002 is missing"):
        points_of(tmp_path)


# ---- what comes back -----------------------------------------------------------------------------


def test_what_was_durable_then_is_a_store_of_its_own(tmp_path: Path) -> None:
    """And whoever serves the first one goes on."""
    with opened(tmp_path / "store", tmp_path / "away", partitions=2) as store:
        for number in range(20):
            store.session(f"chat-{number}").append("user", "before", sync="replica")
        memory = store.remember("Oslo is wet", sync="replica", tags="weather")
        at = now()
        for number in range(20):
            store.session(f"chat-{number}").append("user", "after", sync="replica")
        store.session("new").append("user", "after", sync="replica")
        store.revise(memory.id, text="Oslo is dry")
        store.remember("Rome is hot", sync="replica")
        seen: list[tuple[int, int]] = []
        report = nf.restore(
            tmp_path / "then", url(tmp_path), at=at, progress=lambda *step: seen.append(step)
        )
        assert (report.sessions, report.turns, report.memories) == (20, 20, 1)
        assert report.at == at and report.erasures == 0 and report.partitions == 2
        assert seen[-1] == (report.bytes, report.bytes) and seen == sorted(seen)
        store.session("chat-0").append("user", "not fenced", sync="replica")
        first_id = store.status().store_id
    with nf.open(tmp_path / "then", inline=True) as then:
        assert then.status().store_id == report.store_id != first_id
        assert then.config.replica is None
        for number in range(20):
            assert texts(then, f"chat-{number}") == ["before"]
        found = then.get(memory.id)
        assert (found.text, found.version, found.tags) == ("Oslo is wet", 1, ("weather",))
        assert then.verify().ok and not then.status().owners[0].findings
        assert then.session("chat-0").append("user", "on").seq == 1


def test_a_log_of_several_segments_comes_back_up_to_each_of_its_times(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        for number in range(12):
            store.session("chat").append("user", f"{number}" + "x" * 20_000, sync="replica")
    for at in [point.at for point in points_of(tmp_path).points][::4]:
        turns = nf.restore(tmp_path / "then", url(tmp_path), at=at).turns
        with nf.open(tmp_path / "then", inline=True) as then:
            assert [t.rstrip("x") for t in texts(then)] == [str(n) for n in range(turns)]
            assert then.verify().ok
        shutil.rmtree(tmp_path / "then")


def test_it_may_ship_to_the_same_bucket_under_its_own_id(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
        nf.restore(tmp_path / "then", url(tmp_path), at=now())
        with opened(tmp_path / "then", tmp_path / "away") as then:
            then.session("chat").append("user", "two, then", sync="replica")
        store.session("chat").append("user", "two", sync="replica")
        assert texts(store) == ["one", "two"]
    with pytest.raises(nf.InvalidArgument, match="2 stores"):
        points_of(tmp_path)


# ---- what does not come back ---------------------------------------------------------------------


def erased_later(tmp_path: Path) -> tuple[datetime, dict[str, str]]:
    """Turns, a session and a memory whose text stands in another one, erased after the time that
    is returned, with the ids of the memories."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        chat = store.session("chat")
        for text in ("kept", "a secret", "the secret end"):
            chat.append("user", text, sync="replica")
        store.session("gone").append("user", "secret, all of it", sync="replica")
        told = store.remember("told in secret", sync="replica")
        near = store.remember("near it", context="told in secret", sync="replica")
        at = now()
        chat.append("user", "later", sync="replica")
        near_id = store.revise(near.id, importance=3.0).id
        chat.erase([1, 2, 3], confirm=nf.CONFIRMED, by="ada", reason="asked to")
        store.session("gone").erase(confirm=nf.CONFIRMED, by="bob")
        store.erase(told.id, confirm=nf.CONFIRMED, by="cy", reason="a wish")
    return at, {"told": told.id, "near": near_id}


def check_nothing_comes_back(tmp_path: Path, at: datetime, ids: dict[str, str]) -> None:
    report = nf.restore(tmp_path / "then", url(tmp_path), at=at)
    assert report.erasures == 3
    assert b"secret" not in bytes_in(tmp_path / "then")
    with nf.open(tmp_path / "then", inline=True) as then:
        turns = list(then.session("chat"))
        assert [turn.state for turn in turns] == ["ok", "erased", "erased"]
        assert turns[0].content == "kept" and not len(then.session("gone"))
        with pytest.raises(nf.NotFound):
            then.get(ids["told"], include_forgotten=True)
        assert then.get(ids["near"]).text == "near it"
        entries = {entry.by: entry for entry in then.audit(operation="erase")}
        assert sorted(entries) == ["ada", "bob", "cy"]
        assert entries["ada"].target == {"namespace": [], "session": "chat", "seqs": [[1, 2]]}
        assert entries["ada"].reason == "asked to" and entries["ada"].details["turns"] == 2
        assert all(entry.at > at for entry in entries.values())
        assert then.verify().ok and not then.status().owners[0].findings
        assert then.session("chat").append("user", "on").seq == 3
        assert then.session("chat")[-1].content == "on"
        assert then.session("gone").append("user", "again").seq == 0
    with nf.open(tmp_path / "then", inline=True) as then:
        assert texts(then, "gone") == ["again"] and then.verify().ok


def test_what_was_erased_since_does_not_come_back_and_is_on_record(tmp_path: Path) -> None:
    at, ids = erased_later(tmp_path)
    check_nothing_comes_back(tmp_path, at, ids)


def test_nor_does_it_where_the_objects_were_not_reached_yet(tmp_path: Path) -> None:
    """The erasure was on record, and shipped; then the machine was lost, and the objects still hold
    what it names."""
    kept: dict[Path, bytes] = {}
    with pytest.MonkeyPatch.context() as patch:
        from neverforget.storage.shipping_erasing import ShippedEraser

        real = ShippedEraser._replace

        def keeping(self: ShippedEraser, number: int, ranges: Any) -> bool:
            for path in (tmp_path / "away").rglob(f"{number:016d}"):
                kept.setdefault(path, path.read_bytes())
            return real(self, number, ranges)

        patch.setattr(ShippedEraser, "_replace", keeping)
        at, ids = erased_later(tmp_path)
    for path, content in kept.items():
        path.write_bytes(content)
    assert b"secret" in held(tmp_path / "away") and decode_header(next(iter(kept.values())))
    check_nothing_comes_back(tmp_path, at, ids)


def test_what_was_forgotten_since_is_there_as_it_was(tmp_path: Path) -> None:
    """Forgetting can be undone; purging cannot."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        forgotten = store.remember("forgotten", sync="replica")
        purged = store.remember("purged", sync="replica")
        at = now()
        store.forget(purged.id, confirm=nf.CONFIRMED, by="ada")
        store.purge(older_than=timedelta(0), confirm=nf.CONFIRMED, by="ada")
        store.forget(forgotten.id, confirm=nf.CONFIRMED, by="ada")
    assert nf.restore(tmp_path / "then", url(tmp_path), at=at).erasures == 1
    assert b"purged" not in bytes_in(tmp_path / "then" / "longterm" / "0" / "log")
    with nf.open(tmp_path / "then", inline=True) as then:
        assert then.get(forgotten.id).text == "forgotten"
        with pytest.raises(nf.NotFound):
            then.get(purged.id, include_forgotten=True)
        assert [entry.operation for entry in then.audit()] == ["purge"]
        assert then.verify().ok


# ---- errors, and the command ---------------------------------------------------------------------


def test_a_time_before_the_first_object_is_told(tmp_path: Path) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    with pytest.raises(nf.NotFound, match="the first object is of"):
        nf.restore(tmp_path / "then", url(tmp_path), at=datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(nf.InvalidArgument, match="time zone"):
        nf.restore(tmp_path / "then", url(tmp_path), at=datetime(2001, 1, 1))


def test_a_time_to_come_is_told(tmp_path: Path) -> None:
    """A year that was mistyped would have made all of it, also what was done by mistake."""
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
    with pytest.raises(nf.InvalidArgument, match="in the future; the newest object"):
        nf.restore(tmp_path / "then", url(tmp_path), at=now() + timedelta(days=1))
    assert nf.restore(tmp_path / "then", url(tmp_path), at=now()).turns == 1


def test_an_interrupted_one_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "store", tmp_path / "away") as store:
        store.session("chat").append("user", "one", sync="replica")
        store.remember("Oslo is wet", sync="replica")
    at = now()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(restoring_point, "open_all", die)
        nf.restore(tmp_path / "then", url(tmp_path), at=at)
    with pytest.raises(nf.UnsupportedFormat, match="restore"):
        nf.open(tmp_path / "then", inline=True)
    begun = sorted((tmp_path / "then").rglob("*"))
    with pytest.raises(nf.InvalidArgument, match="is being restored as another"):
        nf.restore(tmp_path / "then", url(tmp_path), at=now())
    assert sorted((tmp_path / "then").rglob("*")) == begun, "what another began is left alone"
    assert nf.restore(tmp_path / "then", url(tmp_path), at=at).memories == 1
    with nf.open(tmp_path / "then", inline=True) as then:
        assert texts(then) == ["one"]
    with pytest.raises(nf.UnsupportedFormat, match="directory already"):
        nf.restore(tmp_path / "then", url(tmp_path), at=at)


def test_the_command_lists_times_and_takes_one(tmp_path: Path, cli: Cli) -> None:
    at, _ = erased_later(tmp_path)
    ran = cli("restore", "--list", "--from", url(tmp_path), "-n", 2)
    assert ran.code == 0 and ran.out.count("Z ") == 2 and "partition-0" in ran.out, ran
    ran = cli("restore", "--list", "--from", url(tmp_path), "--json")
    assert ran.json["points"][-1]["turns"] == 5
    ran = cli("restore", tmp_path / "then", "--from", url(tmp_path), "--at", at.isoformat())
    assert ran.code == 0 and "3 later erasures" in ran.err, ran
    assert cli("verify", tmp_path / "then").code == 0
    ran = cli("restore", "--list", "--from", url(tmp_path), "--at", at.isoformat())
    assert ran.code == 2
    assert cli("restore", tmp_path / "other", "--from", url(tmp_path), "--at", "noon").code == 2
