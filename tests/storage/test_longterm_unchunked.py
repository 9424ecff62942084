"""Which memories wait to be chunked: asked of the log, by a thread beside its owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.longterm_unchunked import LongText, Unchunked
from tests.storage.small_longterm import LongTermBench, longterm, parts_of

LONG = "abcdefghijklmnopqrst"  # of 20 characters


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def queue(b: LongTermBench) -> Unchunked:
    found = Unchunked(b.region.state, 10)
    found.follow()
    return found


def take(found: Unchunked) -> list[LongText]:
    return found.take(100, 10**6)


def test_what_is_long_waits_whether_it_was_there_or_comes(b: LongTermBench) -> None:
    b.remember("short")
    b.remember("0123456789")  # not over ten characters
    one = b.remember(LONG, type="note", tags=("t",))
    found = queue(b)
    two = b.remember(LONG + "u")
    assert found.waiting == 1
    assert found.follow()
    assert not found.follow()
    assert found.waiting == 2
    first, second = take(found)
    assert first == LongText(2, one.position, one.id, 1, "note", LONG)
    assert (second.id, second.text) == (two.id, LONG + "u")
    assert take(found) == [], "taken once"
    assert found.waiting == 2, "they wait until they are chunked"
    assert found.id_of(first.row) == one.id


def test_what_is_chunked_waits_no_longer_also_after_reopening(b: LongTermBench) -> None:
    one, two = b.remember(LONG), b.remember(LONG)
    found = queue(b)
    taken = take(found)
    b.derive(one, 5, summary="letters, so many that it is long itself")
    assert found.follow()
    assert found.waiting == 1
    found.put_back(taken[0])
    found.failed(taken[0], "too late")
    assert found.failures == {}
    b.reopen(snapshot=b.region.snapshot())
    assert [each.id for each in take(queue(b))] == [two.id]
    b.derive(two)
    b.reopen(seal=True)
    assert queue(b).waiting == 0


def test_a_revision_waits_again_behind_the_others(b: LongTermBench) -> None:
    one, two = b.remember(LONG), b.remember(LONG)
    found = queue(b)
    b.derive(one, 5)
    found.follow()
    b.revise(one.id, text=LONG.upper())
    assert found.follow()
    taken = take(found)
    assert all(map(found.is_current, taken))
    assert [(each.id, each.version, each.text) for each in taken] == [
        (two.id, 1, LONG),
        (one.id, 2, LONG.upper()),
    ]
    b.revise(two.id, text="short")
    assert found.follow()
    assert [found.is_current(one) for one in taken] == [False, True]
    assert found.waiting == 1
    b.revise(one.id, importance=3)
    assert found.follow()
    assert [(each.id, each.version) for each in take(found)] == [(one.id, 3)], "taken anew"


def test_only_what_is_active_waits(b: LongTermBench) -> None:
    told = b.remember(LONG)
    other = b.remember(LONG)
    found = queue(b)
    for away, back in ((b.archive, b.unarchive), (b.forget, b.undo)):
        away(told.id)
        assert found.follow()
        assert [each.id for each in take(found)] in ([other.id], [])
        assert found.waiting == 1
        assert queue(b).waiting == 1
        back(told.id)
        assert found.follow()
        assert found.waiting == 2
    b.derive(told, 7)
    found.follow()
    b.forget(told.id)
    b.undo(told.id)
    assert not found.follow(), "its chunks came back with it"
    b.erase(other.id)
    assert found.follow()
    assert found.waiting == 0


def test_what_changes_nothing_of_a_long_text_changes_nothing_here(b: LongTermBench) -> None:
    told = b.remember(LONG)
    found = queue(b)
    (one,) = take(found)
    b.tag(told.id, "x")
    b.remember("short")
    assert not found.follow()
    assert take(found) == []
    found.put_back(one)
    assert take(found) == [one]


def test_what_raises_is_looked_at_again(b: LongTermBench, monkeypatch: Any) -> None:
    """What the log had gained counted as seen before it was looked at, and what was read as taken
    before it was handed out: after an error nobody chunked it before the next opening.
    """

    def raises(*_: Any) -> Any:
        raise OSError("the disk")

    found = Unchunked(b.region.state, 10)
    for number in (1, 2):
        b.remember(LONG)
        with monkeypatch.context() as patch:
            patch.setattr(found, "_long_ones", raises)
            with pytest.raises(OSError):
                found.follow()
        assert found.follow()
        assert found.waiting == number
    reading, count = found._read, 0

    def the_second_raises(row: int, position: int) -> LongText | None:
        nonlocal count
        count += 1
        return raises() if count == 2 else reading(row, position)

    monkeypatch.setattr(found, "_read", the_second_raises)
    with pytest.raises(OSError):
        take(found)
    assert len(take(found)) == 2


def test_a_failure_is_kept_until_it_is_revised_or_opened_again(b: LongTermBench) -> None:
    told = b.remember(LONG)
    found = queue(b)
    (one,) = take(found)
    found.failed(one, "why")
    assert (found.waiting, found.failures) == (0, {one.row: "why"})
    b.tag(told.id, "x")
    assert not found.follow()
    assert found.failures == {one.row: "why"}
    assert queue(b).waiting == 1
    b.revise(told.id, text=LONG + "!")
    assert found.follow()
    assert (found.waiting, found.failures) == (1, {})
    b.forget(told.id)
    found.follow()
    assert (found.waiting, found.failures) == (0, {})


def test_batches_are_bounded_in_number_and_characters(b: LongTermBench) -> None:
    for _ in range(6):
        b.remember(LONG)
    found = queue(b)
    assert [each.row for each in found.take(2, 10**6)] == [0, 1]
    assert [each.row for each in found.take(9, 45)] == [2, 3]
    assert [each.row for each in found.take(9, 1)] == [4], "one at least"


def test_a_deletion_that_is_written_and_not_in_effect_is_not_passed_over(
    b: LongTermBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What deletes is on the disk before it is in effect. A look between the two saw the memory
    as it was, went on from behind the deletion, and it waited for ever.
    """
    told = b.remember(LONG)
    found = queue(b)
    sync = b.region.state.log.sync

    def look_behind_the_sync() -> None:
        sync()
        found.follow()

    monkeypatch.setattr(b.region.state.log, "sync", look_behind_the_sync)
    b.forget(told.id)
    found.follow()
    assert found.waiting == 0


def test_what_cannot_be_read_is_not_waited_for(b: LongTermBench) -> None:
    told = b.remember(LONG)
    found = queue(b)
    segment = next(b.directory.glob("log/*.seg"))
    with segment.open("r+b") as file:
        file.seek(told.position + 64 + 5)
        file.write(b"\x00\x00")
    assert take(found) == []
    assert found.waiting == 0
    assert list(found.failures) == [0]


def test_a_chunking_is_what_takes_it_out_not_a_part_of_one(b: LongTermBench) -> None:
    """``parts_of`` with a summary: a summary without chunks could not be staged at all."""
    told = b.remember(LONG)
    found = queue(b)
    parts = parts_of(told, 4, 9, summary="s", context="Title")
    answer = b.region.derive(told.id, 1, parts, by="chunker", request=(0, 0), splitter="test")
    assert not found.follow(), "staged, and not written"
    b.commit()
    assert b.region.durable >= answer.end
    assert found.follow()
    assert found.waiting == 0


def test_what_is_revised_while_it_is_read_waits_anew(
    b: LongTermBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may follow the log meanwhile; what was taken then is of the former version."""
    one = b.remember(LONG)
    found = queue(b)
    real = Unchunked._read

    def read(queued: Unchunked, row: int, position: int) -> Any:
        monkeypatch.setattr(Unchunked, "_read", real)
        b.revise(one.id, text=LONG + "v")
        queued.follow()
        return real(queued, row, position)

    monkeypatch.setattr(Unchunked, "_read", read)
    (former,) = take(found)
    assert not found.is_current(former) and found.waiting == 1
    (again,) = take(found)
    assert (again.version, again.text) == (2, LONG + "v")
