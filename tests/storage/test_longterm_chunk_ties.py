"""What other memories, and tags, have to do with somebody's chunks: all of it goes by the original,
since a revision makes new chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_documents import QUOTED_CHARACTERS_MIN
from neverforget.storage.longterm_fields import M, MemoryField, packed_id, parse_id
from neverforget.storage.longterm_relating import MADE_WITH
from neverforget.storage.longterm_results import NewRelation
from neverforget.storage.longterm_staging import Planned, Staging
from tests.storage.small_longterm import LongTermBench, everything, longterm

FIRST, SECOND = "first canary " * 10, "second canary " * 10
SUMMARY = "a summary canary of it " * 5


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


# ---- relations -----------------------------------------------------------------------------------


def test_a_relation_with_a_chunk_at_its_end_is_refused(b: LongTermBench) -> None:
    """It was gone after the next revision, without a word; and what was derived from a chunk stayed
    when its original was erased.
    """
    told, other = b.remember(FIRST + SECOND), b.remember("other")
    for part in b.derive(told, len(FIRST), summary="s").memories:
        remedy = f"{part.id} is made from another memory; relate its original {told.id}"
        with pytest.raises(InvalidArgument, match=remedy):
            b.relate(other.id, part.id, "derived-from")
        with pytest.raises(InvalidArgument, match=remedy):
            b.relate(part.id, other.id, "about")
        with pytest.raises(InvalidArgument, match=remedy):
            b.remember("new", related_to=(NewRelation(part.id, "about"),))
    assert b.texts() == [told.text, "other"]
    b.relate(other.id, told.id, "derived-from")
    assert b.erase(told.id).memories == 2


@pytest.mark.parametrize("kind", MADE_WITH)
def test_the_relations_that_chunks_are_made_with_are_theirs_alone(
    b: LongTermBench, kind: str
) -> None:
    one, two = b.remember("one"), b.remember("two")
    with pytest.raises(InvalidArgument, match="kept for chunks and summaries"):
        b.relate(one.id, two.id, kind)
    with pytest.raises(InvalidArgument, match="kept for chunks and summaries"):
        b.remember("new", related_to=(NewRelation(one.id, kind),))


def test_what_an_older_store_derived_from_a_chunk_goes_with_the_original(b: LongTermBench) -> None:
    told, learned = b.remember(FIRST + SECOND), b.remember("learned")
    chunk = b.derive(told, len(FIRST)).memories[0]
    body = {
        M[MemoryField.TARGET]: packed_id(parse_id(chunk.id, derived=True)),
        M[MemoryField.RELATION]: "derived-from",
        M[MemoryField.WEIGHT]: 1.0,
    }
    related = Planned(Kind.RELATED, parse_id(learned.id), body)
    Staging(b.region.state).stage([related], (0, 0), b"")
    b.commit()
    assert {told.id, learned.id} <= set(b.erase(told.id).ids)


# ---- copies in other memories' contexts ----------------------------------------------------------


@pytest.mark.parametrize("how", ["erase", "purge"])
def test_the_text_of_a_chunk_or_summary_is_taken_out_of_contexts(
    b: LongTermBench, how: str
) -> None:
    """Only the whole original was looked for."""
    told = b.remember(FIRST + SECOND)
    parts = b.derive(told, len(FIRST), summary=SUMMARY).memories
    near = [b.remember(f"near {n}", context=f"a {p.text} b") for n, p in enumerate(parts)]
    b.revise(near[0].id, importance=2)
    if how == "erase":
        revised = b.erase(told.id).revised
    else:
        b.forget(told.id)
        b.purge(10**18)
        revised = [one.id for one in near]
    assert sorted(revised) == sorted(one.id for one in near)
    for _ in range(2):
        assert b"canary" not in b.every_byte()
        assert [(b.region.get(one.id).context or "").split() for one in near] == [["a", "b"]] * 3
        b.reopen()
    assert b.findings() == []


def test_a_short_chunk_stands_in_anybodys_context(b: LongTermBench) -> None:
    short = "x" * (QUOTED_CHARACTERS_MIN - 1)
    letter = b.remember(f"one long letter. {short}")
    near = b.remember("near", context=f"a {short} b")
    b.derive(letter, 17, summary=short)
    assert b.erase(letter.id).revised == []
    assert b.region.get(near.id).context == near.context


def test_a_purge_of_former_chunks_takes_nothing_that_is_said_still(b: LongTermBench) -> None:
    """A revision of its importance retires the chunks of a text that stays."""
    told = b.remember(FIRST + SECOND)
    b.derive(told, len(FIRST))
    near = b.remember("near", context=f"a {FIRST} b")
    b.revise(told.id, importance=3)
    b.derive(b.region.get(told.id), len(FIRST))
    b.purge(10**18)
    assert b.region.get(near.id).context == near.context
    assert b.erase(told.id).revised == [near.id]


# ---- tags ----------------------------------------------------------------------------------------


def test_chunks_have_the_tags_that_their_original_has_now(b: LongTermBench) -> None:
    told, _ = b.remember(FIRST + SECOND, tags=("old",)), b.remember("other", tags=("old", "new"))
    b.derive(told, len(FIRST), summary="s")
    b.tag(told.id, "new:one")
    b.untag(told.id, "old")
    for _ in range(2):
        chunks = b.chunks(told.id)
        assert [chunk.tags for chunk in chunks] == [("new:one",)] * 3
        for chunk in chunks:
            assert b.region.get(chunk.id).tags == ("new:one",)
            assert b.region.history(chunk.id)[-1].tags == ("new:one",)
        found = b.region.memories(everything(tags=("new",))).memories
        assert len(found) == 1 + 3 + 1 == b.region.count(everything(tags=("new",)))
        assert b.texts(tags=("old",), derived=True) == ["other"]
        b.reopen(seal=True)
    assert b.findings() == []
