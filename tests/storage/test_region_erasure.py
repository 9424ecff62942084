"""Erasing: the bytes are gone from every file, and what is left says who did it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import (
    ConfirmationRequired,
    Conflict,
    InvalidArgument,
    NotFound,
)
from neverforget.storage.results import TurnFlag
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Killed
from tests.storage.small_region import Bench, bench, contents, flags_at, seen, seqs
from tests.storage.test_region_append import UnlockedBench

CANARY = "canary-8f3a"


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def secret(n: int, **fields: Any) -> dict[str, Any]:
    return {
        "content": f"{CANARY} {n}",
        "key": f"{CANARY}-key-{n}",
        "metadata": {CANARY: [CANARY]},
        "name": CANARY,
        "agent": CANARY,
    } | fields


def test_erased_turns_keep_their_place_and_nothing_else(b: Bench) -> None:
    b.client.say("chat", "kept", secret(1), secret(2), "kept too")
    assert CANARY.encode() in b.every_byte()
    view = b.client.erase("chat", [(1, 2)], reason="asked to")
    assert (view.turns, len(view.positions)) == (2, 2)
    assert view.bytes > 2 * len(CANARY)
    assert view.unreachable
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        window = b.client.all("chat")
        assert contents(window) == ["kept", None, None, "kept too"]
        assert [flags_at(window, n) for n in range(4)] == [0, TurnFlag.ERASED, TurnFlag.ERASED, 0]
        assert [turn.tokens for turn in seen(window)] == [10] * 4
        assert b.region.info((), "chat").turns == 4
        assert b.findings() == [], "erased is not corrupt"
        assert b.region.status().findings == []
        b.reopen()
    (entry,) = b.audit()
    assert (entry.operation, entry.by, entry.reason) == ("erase", "tester", "asked to")
    assert entry.target == {"namespace": [], "session": "chat", "seqs": [[1, 2]]}
    assert entry.details["turns"] == 2
    assert b.client.say("chat", "next") == 4


@pytest.mark.parametrize("seal", [False, True])
def test_an_erased_session_leaves_a_salted_digest(b: Bench, seal: bool) -> None:
    name, place = f"name {CANARY}", (f"ns {CANARY}",)
    b.client.append(name, secret(0), "x", namespace=place, agent=f"one {CANARY}")
    b.client.append(name, secret(2), namespace=place, agent=f"two {CANARY}")
    b.client.append("other", "stays")
    b.client.commit()
    with pytest.raises(ConfirmationRequired):
        b.client.erase(name, namespace=place, confirm=None)
    if seal:
        b.reopen(seal=True)
    view = b.client.erase(name, namespace=place)
    assert view.turns == 3
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert not b.region.info(place, name).exists
        assert [v.session for v in b.region.sessions((), None, None, 9)[0]] == ["other"]
        assert b.region.namespaces((), None, None, 9)[0] == [()]
        assert b.findings() == []
        entries = b.audit()
        assert [e.operation for e in entries] == ["forget-refused", "erase"]
        assert set(entries[1].target) == {"digest", "salt"}
        assert b.audit(namespace=place, session=name) == entries[1:], "who knows it finds it"
        assert b.audit(namespace=place, session="another") == []
        b.reopen(seal=seal)
    assert b.region.status().turns == 1


def test_an_erased_name_starts_afresh(b: Bench) -> None:
    b.client.say("chat", secret(0), secret(1))
    old = b.client.all("chat").session_id
    b.client.erase("chat")
    for n in range(2):
        assert b.client.say("chat", f"new {n}", expect_seq=n) == n
        b.reopen()
    window = b.client.all("chat")
    assert contents(window) == ["new 0", "new 1"]
    assert window.session_id != old
    assert b.client.erase("chat").turns == 2
    assert b.client.say("chat", "third life") == 0
    b.reopen()
    assert contents(b.client.all("chat")) == ["third life"]
    assert b.findings() == []


def test_without_the_word_nothing_is_erased_and_it_is_on_record(b: Bench) -> None:
    b.client.say("chat", "x")
    for confirm in (None, "", "yes", "True", "CONFIRMED"):
        with pytest.raises(ConfirmationRequired):
            b.client.erase("chat", [(0, 0)], confirm=confirm)
    b.reopen()
    assert contents(b.client.all("chat")) == ["x"]
    entries = b.audit()
    assert [e.operation for e in entries] == ["forget-refused"] * 5
    assert entries[0].target == {"namespace": [], "session": "chat", "seqs": [[0, 0]]}
    assert entries[0].details == {"operation": "erase"}


def test_what_cannot_be_erased_is_refused(b: Bench) -> None:
    b.client.say("chat", "x")
    b.client.fork("fork", "chat", 1)
    with pytest.raises(NotFound):
        b.client.erase("nobody")
    with pytest.raises(NotFound):
        b.client.erase("chat", [(0, 1)])
    with pytest.raises(InvalidArgument):
        b.client.erase("chat", [])
    with pytest.raises(InvalidArgument):
        b.client.erase("fork", [(0, 0)])
    assert contents(b.client.all("chat")) == ["x"]


def test_erasing_again_erases_nothing_more(b: Bench) -> None:
    b.client.say("chat", "a", "b")
    request = b.client.next_request()
    first = b.client.erase("chat", [(0, 0)], request=request)
    b.reopen()
    assert b.client.erase("chat", [(0, 0)], request=request) == first, "the same request"
    with pytest.raises(Conflict):
        b.client.erase("chat", [(0, 1)], request=request)
    request = b.client.next_request()
    again = b.client.erase("chat", [(1, 1), (0, 0)], request=request)
    assert again.turns == 1, "only what was not erased yet"
    assert b.client.erase("chat", [(1, 1), (0, 0)], request=request).turns == 1, "in any order"
    assert len(b.audit()) == 2
    whole = b.client.next_request()
    gone = b.client.erase("chat", request=whole)
    b.reopen()
    assert b.client.erase("chat", request=whole) == gone


def test_an_erased_turn_keeps_its_key_for_ever(b: Bench) -> None:
    """It used to give the key back: then a client that repeated its turn, as a key invites it to,
    was answered with the erased one, while any other content was taken under the same key."""
    said = {"content": "said", "key": "k"}
    request = b.client.next_request()
    b.client.say("chat", said, "plain", request=request)
    b.client.erase("chat", [(0, 1)])
    for restart in (False, True):
        if restart:
            b.reopen(seal=True)
        again = b.client.append("chat", said, "plain", request=request)
        assert [len(record) for _, record in again.existing] == [64, 64], "the original answer"
        ((_, record),) = b.client.append("chat", said).existing
        assert len(record) == 64, "another request, the same turn"
        for other in ({"content": "new"}, {"role": "assistant"}, {"content": "dais"}):
            with pytest.raises(Conflict, match="the turn with this key, 0, was erased") as caught:
                b.client.append("chat", said | other)
            assert caught.value.seq == 0
    assert b.region.info((), "chat").turns == 2


def test_an_erased_session_starts_afresh_with_all_its_keys(b: Bench) -> None:
    said = {"content": "said", "key": "k"}
    b.client.say("chat", said)
    b.client.erase("chat", [(0, 0)])
    b.client.erase("chat")
    assert b.client.say("chat", said | {"content": "new"}) == 0
    b.reopen(seal=True)
    with pytest.raises(Conflict):
        b.client.append("chat", said)
    assert contents(b.client.all("chat")) == ["new"]


def test_a_late_repeat_does_not_bring_back_what_was_erased(b: Bench) -> None:
    """A keyed turn has no request id of its own: the same turn again, from a client that never got
    its answer, meets the erased one."""
    b.client.say("chat", "first", agent="ann")
    said, request = {"content": "said", "key": "k"}, b.client.next_request()
    b.client.say("chat", said, request=request)
    b.client.erase("chat", [(1, 1)])
    for restart in (False, True):
        if restart:
            b.reopen(seal=True)
        ((_, record),) = b.client.append("chat", said, request=request).existing
        assert len(record) == 64
    assert b.region.info((), "chat").turns == 2


def test_a_repeat_of_an_append_to_an_erased_session_answers_and_creates_nothing(b: Bench) -> None:
    request = b.client.next_request()
    b.client.say("chat", "a", "b", request=request)
    b.client.erase("chat")
    for _ in range(2):
        again = b.client.append("chat", "a", "b", request=request)
        assert [len(record) for _, record in again.existing] == [64, 64]
        assert not b.region.info((), "chat").exists
        b.reopen()


def test_erasing_a_fork_takes_its_parents_name_out(b: Bench) -> None:
    b.client.say(f"parent {CANARY}", "x")
    b.client.fork("child", f"parent {CANARY}", 1)
    b.client.say("child", "y")
    b.client.erase("child")
    b.client.say("dummy", "z")
    b.client.fork("second", f"parent {CANARY}", 1)
    view = b.client.erase(f"parent {CANARY}")
    assert any("second" in line for line in view.unreachable), "a fork still names it"
    b.client.erase("second")
    assert CANARY.encode() not in b.every_byte()


def test_a_fork_tells_by_the_id_that_its_past_is_gone(b: Bench) -> None:
    b.client.say("chat", "old")
    b.client.fork("fork", "chat", 1)
    b.client.erase("chat")
    b.client.say("chat", "another past")
    point = b.region.info((), "fork").parent
    assert point is not None
    assert b.region.get((), "chat", 0, 1).session_id not in (0, point.session_id)


def test_copies_that_recovery_set_aside_are_erased_too(b: Bench) -> None:
    """Quarantined and torn bytes hold turns of the session, with and without their headers."""
    b.client.say("chat", "a", *[secret(n) for n in range(1, 5)])
    b.client.say("other", "other's turn")
    b.region.noop_if_idle()
    b.damage_header(b.position_of("chat", 2))
    b.damage_header(b.position_of("chat", 3))
    b.client.append("chat", secret(5), secret(6))
    b.region.write()
    last = b.position_of("chat", 6)
    b.close()
    b.damage_body(last)
    b.reopen()
    assert list((b.directory / "torn").iterdir())
    assert list((b.directory / "quarantine").iterdir())
    assert contents(b.client.all("chat"))[2:4] == [None, None]
    b.client.erase("chat", [(1, 3)])
    assert f"{CANARY} 4".encode() in b.every_byte()
    assert f"{CANARY} 2".encode() not in b.every_byte(), "unreadable turns can be erased"
    b.client.erase("chat")
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert contents(b.client.all("other")) == ["other's turn"]
        b.reopen()


def test_lost_bytes_that_may_be_others_stay(b: Bench) -> None:
    """Erasing a session whose turns are all accounted for leaves another's evidence alone."""
    b.client.say("mine", "a")
    b.client.say("theirs", "b", f"evidence {CANARY}", "c")
    b.client.say("mine", "d")
    b.region.noop_if_idle()
    b.damage_header(b.position_of("theirs", 1))
    b.reopen()
    b.client.erase("mine", [(0, 1)])
    assert CANARY.encode() in b.every_byte()
    b.client.erase("theirs", [(1, 1)])
    assert CANARY.encode() not in b.every_byte()
    assert contents(b.client.all("theirs")) == ["b", None, "c"]
    assert flags_at(b.client.all("theirs"), 1) == TurnFlag.ERASED


def test_an_interrupted_erasure_is_completed_by_the_next_opening() -> None:
    """Death at every call of an erasure: afterwards all of it is gone, or none of it is."""
    outcomes = set()
    for at in range(1, 200):
        fs = CrashFileSystem(seed=at)
        b = UnlockedBench(ROOT / "p0", fs=fs)
        b.client.say("chat", "kept", secret(1), secret(2))
        b.client.say("chat", "after")
        fs.kill_at(len(fs.calls) + at - 1)
        try:
            b.client.erase("chat", [(1, 2)])
            done = True
        except Killed:
            done = False
        after = fs.power_cut() if at % 2 else fs.process_death()
        b.fs = after
        b.client.region = b.open()
        erased: list[bool] = []
        for _ in range(2):
            window = b.client.all("chat")
            erased = [flags_at(window, n) == TurnFlag.ERASED for n in seqs(window)]
            assert erased in ([False] * 4, [False, True, True, False])
            assert not done or erased[1]
            assert b.findings() == []
            held = b"".join(
                after.open(path, read_only=True).pread(1 << 20, 0)
                for path in (ROOT / "p0" / "log" / n for n in after.list_directory(ROOT / "p0/log"))
            )
            assert (CANARY.encode() in held) == (not erased[1])
            b.reopen()
        outcomes.add((done, erased[1]))
        b.close()
        if done:
            break
    assert outcomes == {(False, False), (False, True), (True, True)}


def test_a_large_erasure_is_written_in_parts_and_audited_once(
    b: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neverforget.storage import erasure

    monkeypatch.setattr(erasure, "RANGES_MAX", 7)
    b.client.say("chat", *[secret(n) for n in range(30)])
    assert b.client.erase("chat").turns == 30
    assert len(b.audit()) == 1
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert len(b.audit()) == 1
        assert b.findings() == []
        b.reopen()


def test_a_disk_that_forgot_the_zeros_is_found_and_shows_nothing(b: Bench) -> None:
    b.client.say("chat", secret(0), "x")
    position = b.position_of("chat", 0)
    path, offset = b.segment_of(position)
    length = b.region._log.header(position).body_length
    body = path.read_bytes()[offset + 64 : offset + 64 + length]
    b.client.erase("chat", [(0, 0)])
    b.overwrite(position + 64, body)
    for _ in range(2):
        assert contents(b.client.all("chat")) == [None, "x"]
        assert b.findings() == ["unfinished_erasure"]
        b.reopen()


def test_erasing_reaches_what_was_set_aside_by_what_it_says(tmp_path: Path) -> None:
    """Under the seq of the turn that is erased another one stands there, which is still to be
    brought back."""
    with bench(tmp_path / "region") as region:
        client = region.client
        client.say("s", "zero", {"content": "secret one", "timestamp_us": 11})
        client.say("s", {"content": "stays", "timestamp_us": 12}, {"content": "secret one"})
        region.region.seal()
        size = region.region.durable - 64
        raw = (region.directory / "log" / f"{0:016x}.seg").read_bytes()[64 : 64 + size]
        (region.directory / "aside").mkdir()
        aside = region.directory / "aside" / f"{64:016x}-{64 + size:016x}-{9:08x}.aside"
        aside.write_bytes(raw)
        client.erase("s", [(1, 1)])
        assert aside.read_bytes().count(b"secret one") == 1, "another one, with the same words"
        assert b"zero" in aside.read_bytes() and b"stays" in aside.read_bytes()
        client.erase("s")
        assert not re.search(b"secret|zero|stays", aside.read_bytes())
