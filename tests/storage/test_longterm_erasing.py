"""Erasing memories: the bytes are gone from every file, and what is left says who did it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.longterm_results import TurnPoint
from tests.storage.small_longterm import LongTermBench, longterm

CANARY = "canary-8f3a"
TURNS = TurnPoint((), "chat", 0, 4)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def secret(**fields: Any) -> dict[str, Any]:
    return {
        "key": f"{CANARY}-key", "tags": (CANARY,), "source": CANARY, "agent": CANARY,
        "speaker": CANARY, "namespace": (f"n {CANARY}",), "metadata": {CANARY: [CANARY]},
        "context": f"x {CANARY}", "type": CANARY,
    } | fields  # fmt: skip


@pytest.mark.parametrize("seal", [False, True])
def test_nothing_of_an_erased_memory_is_left_in_any_byte(b: LongTermBench, seal: bool) -> None:
    told = b.remember(f"{CANARY} one", **secret())
    kept = b.remember("kept", namespace=("other",))
    b.derive(told, 5, summary=f"summary {CANARY}")
    b.revise(told.id, text=f"{CANARY} two")
    b.tag(told.id, f"{CANARY}:deeper")
    b.relate(told.id, TurnPoint((CANARY,), CANARY, 0, 1), CANARY)
    b.relate(told.id, kept.id, "about")
    if seal:
        b.reopen(seal=True)
    assert CANARY.encode() in b.every_byte()
    view = b.erase(told.id, reason="asked to")
    assert view.memories == 1
    assert view.bytes > 5 * len(CANARY)
    assert view.unreachable
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert b.texts(status=None, derived=True) == ["kept"]
        assert b.region.relations(kept.id) == []
        for include in (False, True):
            with pytest.raises(NotFound):
                b.region.get(told.id, include_forgotten=include)
        assert b.findings() == [], "erased is not corrupt"
        assert b.region.status().findings == []
        (entry,) = b.audit()
        assert (entry.operation, entry.by, entry.reason) == ("erase", "tester", "asked to")
        assert entry.target["id"] == told.id
        assert entry.target["key"] is None
        assert len(entry.target["digest"]) == 32
        assert b.audit(target=told.id, operation="erase") == [entry]
        b.reopen(seal=seal)
    assert b.region.deletion_report(None, None).erased == 1
    with pytest.raises(NotFound):
        b.erase(told.id)
    assert b.remember("new", **secret(context=None)).version == 1, "its key is free"


def test_a_forgotten_memory_can_be_erased(b: LongTermBench) -> None:
    told = b.remember(CANARY)
    b.forget(told.id)
    assert b.erase(told.id).memories == 1
    assert CANARY.encode() not in b.every_byte()
    with pytest.raises(NotFound):
        b.undo(told.id)


def test_what_was_derived_only_from_it_goes_too_and_others_are_flagged(b: LongTermBench) -> None:
    source, other = b.remember(f"{CANARY} source"), b.remember("other")
    only, both, turns, grand = (b.remember(f"{CANARY} {n}") for n in range(4))
    for memory in (only, both, turns):
        b.relate(memory.id, source.id, "derived-from")
    b.relate(both.id, other.id, "derived-from")
    b.relate(turns.id, TURNS, "derived-from")
    b.relate(grand.id, only.id, "derived-from")
    view = b.erase(source.id)
    assert set(view.ids) == {source.id, only.id, grand.id}
    assert view.memories == 3
    assert set(view.flagged) == {both.id, turns.id}
    assert b.texts() == ["other", both.text, turns.text]
    entry = b.audit()[0]
    assert set(entry.details["flagged"]) == {both.id, turns.id}


def test_its_text_is_taken_out_of_the_context_of_others(b: LongTermBench) -> None:
    told = b.remember(f"  {CANARY} said  ")
    neighbour = b.remember("near", context=f"before: {CANARY} said, after", tags=("a",), key="k")
    b.tag(neighbour.id, "b")
    b.revise(neighbour.id, importance=3)
    stranger = b.remember("far", context="something else")
    view = b.erase(told.id)
    assert view.revised == [neighbour.id]
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        now = b.region.by_key((), "k")
        assert (now.text, now.context, now.version) == ("near", "before:  , after", 3)
        assert (now.tags, now.importance) == (("a", "b"), 3)
        assert [v.version for v in b.region.history(neighbour.id)] == [3], "the others are erased"
        assert b.region.get(stranger.id).context == "something else"
        assert b.findings() == []
        b.reopen(seal=True)


def test_a_namespace_is_erased_with_what_the_audit_says_of_it(b: LongTermBench) -> None:
    inside = (f"n {CANARY}", "deep")
    for n in range(5):
        b.remember(f"{CANARY} {n}", **secret(namespace=inside[: 1 + n % 2], key=f"k{n}"))
    kept = b.remember("kept", namespace=("other",))
    b.forget_where(namespace=inside, where={"metadata.x": CANARY})
    b.forget_where(namespace=inside, tags=(CANARY,))
    with pytest.raises(Exception, match="confirm"):
        b.region.erase_where(inside[:1], **b.asked(confirm=None))
    assert b.region.erase_where(inside[:1], dry_run=True, **b.asked()).memories == 5
    view = b.region.erase_where(inside[:1], **b.asked())
    assert view.memories == 5
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert b.texts(status=None) == [kept.text]
        assert b.findings() == []
        assert b.region.status().findings == []
        operations = [e.operation for e in b.audit()]
        assert operations == ["forget", "forget-refused", "erase"], "that it happened stays"
        b.reopen()
    assert b.region.erase_where(inside, **b.asked()).memories == 0


def test_a_repeated_erasure_gets_its_first_answer(b: LongTermBench) -> None:
    told, other = b.remember("x"), b.remember("y")
    request = b.next_request()
    first = b.erase(told.id, request=request)
    for _ in range(2):
        assert b.erase(told.id, request=request) == first
        with pytest.raises(Conflict):
            b.erase(other.id, request=request)
        b.reopen()
    late = b.next_request()
    made = b.new("late")
    b.remember_many(made, request=late)
    b.erase(made.id)
    with pytest.raises(NotFound):
        b.remember_many(made, request=late)
    assert b.texts() == ["y"], "a late repeat does not bring it back"


def test_what_cannot_be_erased_is_refused(b: LongTermBench) -> None:
    told = b.remember("abcdef")
    chunk = b.derive(told, 3).memories[0]
    with pytest.raises(InvalidArgument):
        b.erase(chunk.id)
    with pytest.raises(NotFound):
        b.erase(told.id, b.next_id())
    with pytest.raises(NotFound):
        b.erase()
    assert b.texts() == ["abcdef"]


def test_copies_that_recovery_set_aside_are_erased_too(b: LongTermBench) -> None:
    told = b.remember(f"{CANARY} one")
    b.region.noop_if_idle()
    torn = b.revise(told.id, text=f"{CANARY} two, torn")
    b.region.close()
    (segment,) = (b.directory / "log").glob("*.seg")
    with segment.open("r+b") as file:
        file.seek(torn.position + 70)
        file.write(b"\xff\xff")
    b.region = b.open()
    assert b.region.get(told.id).version == 1
    assert any((b.directory / "torn").iterdir())
    assert b"two, torn" in b.every_byte()
    b.erase(told.id)
    assert CANARY.encode() not in b.every_byte()
    assert b"torn" not in b.every_byte()


def test_what_the_audit_was_told_of_it_is_erased_and_the_entries_stay(b: LongTermBench) -> None:
    told = b.remember(f"{CANARY} said", key="a-key", metadata={"mail": f"{CANARY}@x.org"})
    other = b.remember("other", tags=("kept",))
    b.forget_where(where={"metadata.mail": f"{CANARY}@x.org"})
    b.undo(told.id)
    b.archive(told.id, reason=f"it is about {CANARY}@x.org.")
    b.archive(other.id, reason="not about him")
    b.unarchive(other.id)
    b.forget_where(tags=("kept",))
    b.region.refuse("forget", {"filter": {"where": {"metadata.key": "a-key"}}}, "mallory", None)
    b.commit()
    b.erase(told.id, reason="he asked")
    for _ in range(2):
        assert CANARY.encode() not in b.every_byte()
        assert b"a-key" not in b.every_byte()
        said = [(e.operation, e.reason, e.target.get("filter")) for e in b.audit()]
        assert said == [
            ("forget", None, None), ("undo-forget", None, None), ("archive", None, None),
            ("archive", "not about him", None), ("unarchive", None, None),
            ("forget", None, {"tags": ["kept"]}), ("forget-refused", None, None),
            ("erase", "he asked", None),
        ]  # fmt: skip
        assert [e.operation for e in b.audit(target=told.id)] == [
            "forget", "undo-forget", "archive", "erase",
        ]  # fmt: skip
        assert b.findings() == []
        assert b.region.status().findings == []
        b.reopen(seal=True)


def test_a_common_word_is_cut_out_of_nobody_else(b: LongTermBench) -> None:
    told = b.remember("Yes")
    near = b.remember("near", context="Yesterday. Yes. And more")
    far = b.remember("far", context="Yesterday")
    assert b.erase(told.id).revised == [near.id]
    assert b.region.get(near.id).context == "Yesterday.  . And more"
    assert b.region.get(far.id).version == 1


def test_older_versions_of_a_neighbour_lose_the_text_too(b: LongTermBench) -> None:
    """The current context no longer has it, an older version still did."""
    told = b.remember(f"{CANARY} said")
    near = b.remember("near", context=f"{CANARY} said")
    b.revise(near.id, context="something else")
    assert b.erase(told.id).revised == [near.id]
    assert CANARY.encode() not in b.every_byte()
    assert b.region.get(near.id).context == "something else"


def test_a_dry_run_says_what_would_go_with_it(b: LongTermBench) -> None:
    inside = b.remember("inside", namespace=("n",))
    outside, both = b.remember("only from it"), b.remember("from it and more")
    for memory in (outside, both):
        b.relate(memory.id, inside.id, "derived-from")
    b.relate(both.id, TURNS, "derived-from")
    tried = b.region.erase_where(("n",), dry_run=True, **b.asked())
    done = b.region.erase_where(("n",), **b.asked())
    assert (tried.memories, set(tried.ids), tried.flagged) == (2, set(done.ids), done.flagged)


def test_a_long_chain_of_memories_made_from_each_other_goes_at_once(b: LongTermBench) -> None:
    chain = b.remember_many(*(b.new(f"m{n}") for n in range(200))).memories
    for before, after in pairwise(chain):
        b.region.relate(after.id, before.id, "derived-from", by="t", request=b.next_request())
    b.commit()
    assert b.erase(chain[0].id).memories == 200
