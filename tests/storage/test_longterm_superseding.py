"""A memory that takes the place of another one, in its batch; and what comes from which turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.longterm_results import NewRelation, Superseding, TurnPoint
from tests.storage.small_longterm import LongTermBench, longterm, memory_id

OSLO, BERGEN, ROME = "Ann lives in Oslo", "Ann lives in Bergen", "Ann lives in Rome"


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def supersede(b: LongTermBench, text: str, *olds: str, at: int, **fields: Any) -> str:
    new = b.new(text, valid_from=at, **fields)
    pairs = [Superseding(new.id, old, at) for old in olds]
    b.remember_many(new, superseding=pairs)
    return new.id


def ends(b: LongTermBench, *ids: str) -> list[int | None]:
    return [b.region.get(each, include_forgotten=True).valid_to for each in ids]


def test_the_older_one_ends_and_stays(b: LongTermBench) -> None:
    old = b.remember(OSLO, valid_from=100, tags=("home",), metadata={"a": 1})
    b.tag(old.id, "later")
    new = supersede(b, BERGEN, old.id, at=200)
    for _ in range(2):
        view = b.region.get(old.id)
        assert (view.text, view.valid_from, view.valid_to, view.version) == (OSLO, 100, 200, 2)
        assert view.tags == ("home", "later") and view.metadata == {"a": 1}
        assert [v.valid_to for v in b.region.history(old.id)] == [None, 200]
        (relation,) = b.region.relations(new)
        assert (relation.source, relation.target, relation.kind) == (new, old.id, "supersedes")
        b.reopen()
    assert b.texts(as_of=150) == [OSLO]
    assert b.texts(as_of=200) == [BERGEN]


def test_an_end_is_only_ever_moved_forward(b: LongTermBench) -> None:
    old = b.remember(OSLO, valid_from=100, valid_to=150)
    supersede(b, BERGEN, old.id, at=200)
    assert ends(b, old.id) == [150] and b.region.get(old.id).version == 1
    supersede(b, ROME, old.id, at=120)
    assert ends(b, old.id) == [120]
    supersede(b, "before it was ever true", old.id, at=50)
    assert ends(b, old.id) == [100]


def test_several_of_a_batch_make_one_version(b: LongTermBench) -> None:
    old = b.remember(OSLO)
    first, second = b.new(BERGEN), b.new(ROME)
    pairs = [Superseding(first.id, old.id, 300), Superseding(second.id, old.id, 200)]
    pairs.append(Superseding(second.id, first.id, 300))
    b.remember_many(first, second, superseding=pairs)
    view = b.region.get(old.id)
    assert (view.version, view.valid_to) == (2, 200)
    assert ends(b, first.id) == [None], "one of the batch says itself until when it holds"
    assert len(b.region.relations(second.id, direction="out")) == 2


@pytest.mark.parametrize("how", ["forget", "erase", "unknown"])
def test_what_is_gone_by_then_is_left_out(b: LongTermBench, how: str) -> None:
    old = b.remember(OSLO)
    target = old.id
    if how == "forget":
        b.forget(old.id)
    elif how == "erase":
        b.erase(old.id)
    else:
        target = memory_id(999)
    new = supersede(b, BERGEN, target, at=200)
    assert b.region.relations(new) == []
    assert b.texts() == ([OSLO, BERGEN] if how == "unknown" else [BERGEN])
    assert all(end is None for end in ends(b, *([] if how == "erase" else [old.id])))


def test_it_is_all_or_nothing_and_repeats_change_nothing(b: LongTermBench) -> None:
    old = b.remember(OSLO)
    new = b.new(BERGEN, valid_from=200)
    request = b.next_request()
    for _ in range(3):
        b.remember_many(new, request=request, superseding=[Superseding(new.id, old.id, 200)])
        assert b.region.get(old.id).version == 2
        b.reopen()
    # Nobody wrote it, so nobody saw it: the batch was never in the file.
    lost = b.new(ROME, valid_from=300)
    b.region.remember(
        [lost], by="tester", request=b.next_request(),
        superseding=[Superseding(lost.id, new.id, 300)],
    )  # fmt: skip
    b.reopen()
    assert ends(b, new.id) == [None] and b.texts() == [OSLO, BERGEN]


def test_what_holds_a_key_supersedes_nothing(b: LongTermBench) -> None:
    old = b.remember(OSLO)
    with pytest.raises(InvalidArgument):
        supersede(b, BERGEN, old.id, at=1, key="home")
    assert b.texts() == [OSLO]


def test_memories_are_found_by_the_turns_they_come_from(b: LongTermBench) -> None:
    def found(first: int, last: int, session: str = "s") -> set[str]:
        views, more = b.region.derived_from(("team",), session, first, last)
        assert more is None
        return {view.source for view in views}

    def of(first: int, last: int, session: str = "s") -> NewRelation:
        return NewRelation(TurnPoint(("team",), session, first, last), "derived-from")

    one = b.remember("one", related_to=(of(0, 3),))
    two = b.remember("two", related_to=(of(4, 4), of(9, 9)))
    three = b.remember("three", related_to=(of(4, 4, "other"),))
    four = b.remember("four", related_to=(of(3, 5), NewRelation(one.id, "derived-from")))
    for _ in range(2):
        assert found(0, 2) == {one.id}
        assert found(3, 4) == {one.id, two.id, four.id}
        assert found(6, 8) == set() and found(4, 4, "other") == {three.id}
        views, _ = b.region.derived_from(("team",), "s", 9, 9)
        assert [r.target.first for r in views if isinstance(r.target, TurnPoint)] == [4, 9]
        b.reopen()
    b.forget(two.id)
    assert found(9, 9) == set()


def test_memories_may_lose_their_context_for_good(b: LongTermBench) -> None:
    """What stands around a fact may be the text of a turn, and go when that goes."""
    going = b.remember("going")
    one = b.remember("one", context="secret before", tags=("kept",))
    b.revise(one.id, importance=5.0)
    later = b.remember("later", context="secret after")
    b.revise(later.id, context=None)
    other = b.remember("other", context="secret elsewhere")
    report = b.erase(going.id, bare=[one.id, later.id, memory_id(999)])
    assert report.memories == 1 and set(report.revised) == {one.id, later.id}
    for _ in range(2):
        for each, text in ((one, "one"), (later, "later")):
            view = b.region.get(each.id)
            assert (view.text, view.context) == (text, None)
            assert all(v.context is None for v in b.region.history(each.id))
        assert b.region.get(one.id).tags == ("kept",) and b.region.get(one.id).importance == 5.0
        assert b.region.get(other.id).context == "secret elsewhere"
        b.reopen()
    report = b.erase(bare=[other.id])  # nobody goes
    assert (report.memories, report.revised) == (0, [other.id])
    b.reopen()
    assert b.texts() == ["one", "later", "other"] and b.region.get(other.id).context is None
    data = b"".join(path.read_bytes() for path in b.directory.rglob("*") if path.is_file())
    assert b"secret" not in data
    entries = b.region.audit(operation="erase").entries
    assert [entry.details["count"] for entry in entries] == [1, 0] and b.findings() == []
    with pytest.raises(NotFound):
        b.erase(bare=[memory_id(999)])
