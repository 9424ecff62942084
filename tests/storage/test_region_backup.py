"""A backup opens as the region it is a copy of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.region_options import RegionOptions
from tests.storage.small_region import Bench, Client, bench, contents


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def test_a_backup_holds_what_was_durable_and_goes_on_alone(b: Bench, tmp_path: Path) -> None:
    for n in range(300):
        b.client.append("chat", {"content": f"{n} " + "x" * 300, "key": f"k{n}"}, agent="ann")
    b.client.commit()
    b.client.hide("chat", (5, 9))
    b.client.erase("chat", [(20, 29)])
    b.client.append("chat", "written, not synced")
    b.region.write()
    wanted = contents(b.client.all("chat"))[:-1]
    target = tmp_path / "copy" / "p0"
    size, durable = b.region.backup(target)
    assert durable == b.region.durable < b.region.written
    assert size > 300 * 300
    assert not (target / "LOCK").exists()
    b.client.say("chat", "only here")
    copy = b.open(target)
    try:
        client = Client(copy, producer=9, clock=b.clock)
        assert contents(client.all("chat")) == wanted
        assert [view.session for view in copy.sessions((), None, None, 9)[0]] == ["chat"]
        assert [kind.kind for kind in copy.verify()] == []
        assert client.append("chat", {"content": "7 " + "x" * 300, "key": "k7"}).existing
        assert client.say("chat", "only there") == 300
        assert copy.epoch > b.region.epoch
    finally:
        copy.close()
    assert contents(b.client.tail("chat", 2)) == ["written, not synced", "only here"]


def test_a_backup_needs_a_directory_of_its_own(b: Bench, tmp_path: Path) -> None:
    b.client.say("chat", "x")
    for target in (b.directory, tmp_path):
        with pytest.raises(InvalidArgument):
            b.region.backup(target)
    (tmp_path / "empty").mkdir()
    b.region.backup(tmp_path / "empty")
    with pytest.raises(InvalidArgument):
        b.region.backup(tmp_path / "empty")


def test_a_backup_after_a_roll_without_data_opens(tmp_path: Path) -> None:
    options = RegionOptions(segment_bytes=8192, first_segment_bytes=4096)
    with bench(tmp_path / "p0", options=options) as b:
        b.client.say("chat", "x" * 3000)
        b.client.append("chat", "y" * 3000)  # rolls; nothing in the new segment is durable yet
        b.region.backup(tmp_path / "copy")
        copy = b.open(tmp_path / "copy")
        try:
            client = Client(copy, producer=9, clock=b.clock)
            assert contents(client.all("chat")) == ["x" * 3000]
            assert client.say("chat", "z" * 3000) == 1
        finally:
            copy.close()


def test_an_erasure_during_the_copying_makes_it_begin_again(
    b: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neverforget.storage import backup

    b.client.say("chat", "secret-5a1", "stays")
    real = backup._copy
    copies: list[int] = []

    def copy_and_erase(*arguments: object) -> int:
        copied = real(*arguments)  # type: ignore[arg-type]
        if not copies:
            b.client.erase("chat", [(0, 0)])
        copies.append(copied)
        return copied

    monkeypatch.setattr(backup, "_copy", copy_and_erase)
    b.region.backup(tmp_path / "copy")
    assert len(copies) == 2
    held = b"".join(p.read_bytes() for p in (tmp_path / "copy").rglob("*") if p.is_file())
    assert b"secret-5a1" not in held


def test_verify_counts_what_it_read(b: Bench) -> None:
    b.client.say("chat", "a", "b")
    verification = b.region.verify()
    assert list(verification) == []
    assert verification.records == 3, "two turns and the session's opening"
    assert verification.bytes > 0


def test_verify_holds_the_index_against_the_log(b: Bench) -> None:
    b.client.say("chat", "a", "b")
    b.client.say("other", "c")
    session = b.region._state.index.find((), "chat")[0]
    assert session is not None
    session.rows[2], session.rows[4] = session.rows[4], session.rows[2]
    assert "index_mismatch" in b.findings()
    session.rows[2], session.rows[4] = session.rows[4], session.rows[2]
    assert b.findings() == []
    session.append(b.region.durable - 8, 0)
    assert b.findings() == ["index_mismatch"]
