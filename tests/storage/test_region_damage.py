"""A region whose bytes went bad: what is unreadable is never empty, and no seq is given twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import Conflict, Corrupt, NotFound, UnsupportedFormat
from neverforget.storage.format import HEADER_BYTES, stride
from neverforget.storage.lost_ranges import TURN_BYTES_MIN
from neverforget.storage.region import Region
from neverforget.storage.results import TurnFlag
from tests.storage.small_region import Bench, bench, contents, flags_at, seen, seqs


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def prove(b: Bench) -> None:
    """Bring all that was said below a durable mark that the log itself proves."""
    b.client.commit()
    b.region.noop_if_idle()


def wipe(b: Bench, session: str, first: int, last: int) -> int:
    """Zero the records of turns first..last, which stand next to each other. The bytes lost."""
    start = b.position_of(session, first)
    header = b.region._log.header(b.position_of(session, last))
    stop = b.position_of(session, last) + stride(header.body_length)
    b.overwrite(start, bytes(stop - start))
    return stop - start


def test_a_bad_body_is_one_unreadable_turn(b: Bench) -> None:
    b.client.say("chat", *[str(n) for n in range(5)])
    prove(b)
    b.damage_body(b.position_of("chat", 2))
    for found_before in (False, True):
        window = b.client.all("chat")
        assert contents(window) == ["0", "1", None, "3", "4"]
        assert flags_at(window, 2) == TurnFlag.UNREADABLE
        turn = seen(window)[2]
        assert (turn.role, turn.tokens) == ("user", 10), "its header tells what it was"
        assert b.region.info((), "chat").turns == 5
        assert seqs(b.client.tail("chat", 2, before=3)) == [1, 2], "a count in its place"
        assert "corrupt_body" in b.findings()
        assert bool(b.region.status().findings) == found_before
        b.reopen()
    assert b.client.say("chat", "next") == 5


def test_a_bad_header_is_an_unreadable_turn_in_its_place(b: Bench) -> None:
    b.client.say("chat", *[str(n) for n in range(5)])
    prove(b)
    b.damage_header(b.position_of("chat", 2))
    for _ in range(2):
        window = b.client.all("chat")
        assert contents(window) == ["0", "1", None, "3", "4"]
        assert flags_at(window, 2) == TurnFlag.UNREADABLE
        assert contents(b.region.get((), "chat", 2, 3)) == [None]
        assert b.region.info((), "chat").turns == 5
        assert any(kind.startswith("corrupt") for kind in b.findings())
        b.reopen()
    assert b.region.status().quarantined_bytes > 0
    assert b.client.say("chat", "next") == 5


@pytest.mark.parametrize("how", ["append", "hide", "mark", "erase", "reopen"])
def test_no_seq_of_lost_turns_is_ever_given_again(b: Bench, how: str) -> None:
    """The session's last turns are gone and nothing says how many they were: its next append goes
    behind all that the lost bytes can have held."""
    b.client.say("chat", *["x" * 90] * 10)
    b.client.say("quiet", "before")
    b.client.say("other", "later")
    prove(b)
    lost = wipe(b, "chat", 6, 9)
    b.reopen()
    assert b.region.info((), "chat").turns == 6
    behind = 6 + -(-lost // TURN_BYTES_MIN)
    assert behind >= 10
    with pytest.raises(Conflict) as caught:
        b.client.append("chat", "y", expect_seq=6)
    assert caught.value.seq == behind
    if how == "hide":
        b.client.hide("chat", (0, 0))
    elif how == "mark":
        b.region.mark((), "chat", 0, 0, "v", *b.client.next_request())
        b.client.commit()
    elif how == "erase":
        b.client.erase("chat", [(0, 0)])
    elif how == "reopen":
        b.reopen(seal=True)
    assert b.client.say("chat", "new", expect_seq=behind) == behind
    assert b.client.say("chat", "newer") == behind + 1
    assert b.client.say("other", "x") == 1, "it has a record behind the lost ones"
    assert b.client.say("quiet", "x") == 1
    for _ in range(2):
        window = b.client.all("chat")
        assert seqs(window) == list(range(behind + 2))
        assert [flags_at(window, n) for n in (6, behind - 1)] == [TurnFlag.UNREADABLE] * 2
        assert contents(b.client.tail("chat", 2)) == ["new", "newer"]
        b.reopen()


def test_a_session_before_the_lost_bytes_leaves_the_same_room(b: Bench) -> None:
    """Nobody can tell whose turns were lost, so every session without a later record skips."""
    b.client.say("early", "x")
    b.client.say("chat", "y", "z")
    b.client.say("late", "w")
    prove(b)
    lost = wipe(b, "chat", 1, 1)
    b.reopen()
    skipped = -(-lost // TURN_BYTES_MIN)
    assert b.client.say("early", "next") == 1 + skipped
    assert b.client.say("late", "next") == 1


def test_a_session_that_lost_its_name_is_still_read_and_written(b: Bench) -> None:
    b.client.say("chat", "a", "b", agent="ann")
    b.client.say("other", "x")
    prove(b)
    b.damage_header(64)
    for n in range(3):
        b.reopen()
        assert contents(b.client.all("chat")) == ["a", "b", *["c"] * n]
        assert b.region.info((), "chat").exists
        listed = [view.session for view in b.region.sessions((), None, None, 9)[0]]
        assert listed == (["other"] if n == 0 else ["chat", "other"]), "named again when written"
        assert b.client.say("chat", "c") == 2 + n
    assert b.client.erase("chat").turns == 5
    assert not b.region.info((), "chat").exists


def test_a_wholly_lost_session_whose_id_still_stands_there_skips_too(b: Bench) -> None:
    b.client.say("gone", "a", "b")
    turns = [b.position_of("gone", seq) for seq in (0, 1)]
    b.client.say("other", "x")
    prove(b)
    for position in (64, *turns):
        b.damage_header(position)
    b.reopen()
    assert not b.region.info((), "gone").exists
    lost = b.region.status().quarantined_bytes
    assert b.client.say("gone", "new") == sum(
        -(-(stop - start) // TURN_BYTES_MIN) for start, stop in b.region._state.lost.ranges
    )
    assert lost > 0
    assert b.client.say("brand new", "x") == 0


def test_damage_beyond_the_durable_mark_is_a_torn_tail(b: Bench) -> None:
    b.client.say("chat", "kept")
    prove(b)
    b.client.append("chat", "never synced")
    b.region.write()
    position = b.position_of("chat", 1)
    b.close()
    b.damage_body(position)
    b.reopen()
    assert contents(b.client.all("chat")) == ["kept"]
    assert b.region.status().torn_bytes > 0
    assert b.client.say("chat", "again") == 1


def test_lost_control_records_are_reported(b: Bench) -> None:
    b.client.say("chat", "x", "y")
    b.client.hide("chat", (0, 0))
    (entry,) = b.audit()
    prove(b)
    b.damage_body(entry.position)
    b.reopen()
    assert seqs(b.client.all("chat", include_hidden=False)) == [0, 1], "it cannot be known"
    assert "corrupt_body" in b.findings()
    assert [e.operation for e in b.audit()] == ["hide"]


@pytest.mark.parametrize("with_turns", [False, True])
def test_a_fork_that_lost_its_record_keeps_its_seqs(b: Bench, with_turns: bool) -> None:
    b.client.say("parent", *["x"] * 50)
    b.client.fork("child", "parent", 40)
    if with_turns:
        b.client.say("child", "y")
    prove(b)
    b.damage_header(b.audit()[0].position)
    for n in range(2):
        b.reopen()
        info = b.region.info((), "child")
        assert (info.parent, info.base) == (None, 0)
        assert info.turns >= 40 + with_turns + n
        window = b.region.get((), "child", 0, 1)
        assert flags_at(window, 0) == TurnFlag.UNREADABLE, "its past is not empty, it is lost"
        assert b.client.say("child", "z") >= 40 + with_turns + n


def test_a_log_loaded_in_parts_gives_the_same_region(
    b: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neverforget.storage import log_state

    for n in range(400):
        b.client.append(f"s{n % 7}", {"content": f"{n} " + "x" * 150, "key": f"k{n}"}, agent="a")
    b.client.commit()
    b.client.fork("f", "s1", 3)
    b.client.say("f", "own")
    b.client.hide("s2", (1, 4))
    b.client.erase("s3", [(2, 3)])
    b.client.erase("s4")
    b.client.say("s4", "afresh")
    monkeypatch.setattr(log_state, "_CHUNK_RECORDS", 30)
    names = [*(f"s{n}" for n in range(7)), "f"]
    before = [(b.client.all(name), b.region.info((), name)) for name in names]
    audited = b.audit()
    for seal in (False, True):
        b.reopen(seal=seal)
        assert [(b.client.all(name), b.region.info((), name)) for name in names] == before
        assert b.audit() == audited
        assert b.findings() == []


def test_a_lost_side_file_changes_nothing(b: Bench) -> None:
    for n in range(300):
        b.client.append("chat", {"content": f"{n} " + "x" * 200, "key": f"k{n}"})
    b.client.commit()
    wanted = contents(b.client.all("chat"))
    b.region.seal()
    for damage in ("unlink", "flip"):
        b.close()
        for path in (b.directory / "log").glob("*.heads"):
            if damage == "unlink":
                path.unlink()
            else:
                raw = bytearray(path.read_bytes())
                raw[len(raw) // 2] ^= 1
                path.write_bytes(raw)
        b.reopen()
        assert contents(b.client.all("chat")) == wanted
        again = b.client.append("chat", {"content": f"{7} " + "x" * 200, "key": "k7"})
        assert [index for index, _ in again.existing] == [0]


# ---- directories ---------------------------------------------------------------------------------


def test_an_empty_or_foreign_directory_is_never_a_fresh_start(b: Bench, tmp_path: Path) -> None:
    b.client.say("chat", "x")
    b.close()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound):
        b.open(tmp_path / "empty")
    with pytest.raises(NotFound):
        b.open(tmp_path / "missing")
    for store_id, partition in (("other", 0), ("store", 1)):
        with pytest.raises(UnsupportedFormat):
            Region.open(b.fs, b.directory, store_id=store_id, partition=partition)
        with pytest.raises(UnsupportedFormat):
            Region.create(b.fs, b.directory, store_id=store_id, partition=partition)
    Region.create(b.fs, b.directory, store_id="store", partition=0)
    b.reopen()
    assert contents(b.client.all("chat")) == ["x"], "creating it again left it alone"
    b.close()
    for path in (b.directory / "log").glob("*"):
        path.unlink()
    with pytest.raises(Corrupt):
        b.open()


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    with bench(tmp_path / "p0") as b:
        b.close()
        (b.directory / "IDENTITY").unlink()
        Region.create(b.fs, b.directory, store_id="store", partition=0)
        b.reopen()
        assert b.client.say("chat", "x") == 0


def test_a_log_without_its_identity_is_never_cleared_away(b: Bench) -> None:
    b.client.say("chat", "x")
    b.close()
    identity = (b.directory / "IDENTITY").read_bytes()
    (b.directory / "IDENTITY").unlink()
    with pytest.raises(Corrupt):
        Region.create(b.fs, b.directory, store_id="store", partition=0)
    (b.directory / "IDENTITY").write_bytes(identity)
    b.reopen()
    assert contents(b.client.all("chat")) == ["x"]


def test_opening_for_reading_only_writes_nothing(b: Bench) -> None:
    b.client.say("chat", "x", "y")
    prove(b)
    b.close()
    before = {
        path: path.read_bytes()
        for path in b.directory.rglob("*")
        if path.is_file() and path.name != "LOCK"
    }
    region = b.open(read_only=True)
    b.client.region = region
    assert contents(b.client.all("chat")) == ["x", "y"]
    assert region.poisoned is not None
    with pytest.raises(OSError):
        b.client.say("chat", "z")
    b.close()
    assert {path: path.read_bytes() for path in before} == before


def test_each_owner_has_a_higher_epoch_and_stamps_it(b: Bench) -> None:
    b.client.say("chat", "x")
    b.reopen()
    b.client.say("chat", "y")
    epochs = [b.region._log.header(b.position_of("chat", n)).epoch for n in (0, 1)]
    assert epochs[0] < epochs[1] == b.region.epoch


def test_an_epoch_file_that_is_lost_or_old_gives_no_epoch_twice(b: Bench) -> None:
    old = (b.directory / "EPOCH").read_bytes()
    for n in range(3):
        b.reopen()
        b.client.say("chat", f"{n}")
    last = b.region.epoch
    for content in (old, None):
        b.close()
        (b.directory / "EPOCH").unlink()
        if content is not None:
            (b.directory / "EPOCH").write_bytes(content)
        b.reopen()
        assert b.region.epoch > last
        last = b.region.epoch
        assert b.reopen().epoch > last, "and the file knows it again"
        b.client.say("chat", "x")  # an epoch in which nothing was written leaves no trace
        last = b.region.epoch


def test_a_closed_region_gives_its_lock_back_also_when_opening_fails(b: Bench) -> None:
    b.client.say("chat", "x" * 100)
    b.close()
    log = b.directory / "log"
    log.rename(b.directory / "elsewhere")
    for _ in range(3):
        with pytest.raises((Corrupt, OSError)):
            b.open()
    (b.directory / "elsewhere").rename(log)
    b.reopen()
    b.region.close()
    b.region.close()


def test_bytes_of_a_record_inside_a_body_are_no_record(b: Bench) -> None:
    """A turn that quotes the log is not taken for turns when its own header is lost."""
    b.client.say("chat", "a", "b")
    position = b.position_of("chat", 1)
    path, offset = b.segment_of(position)
    quoted = path.read_bytes()[offset : offset + HEADER_BYTES + 16]
    b.client.say("chat", {"content": quoted * 4}, "last")
    prove(b)
    b.damage_header(b.position_of("chat", 2))
    b.reopen()
    assert contents(b.client.all("chat")) == ["a", "b", None, "last"]
