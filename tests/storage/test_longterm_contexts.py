"""A forgotten text is not found through what quotes it, however many are forgotten at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.longterm_results import MemoryFilter
from tests.storage.small_index import IndexBench, indexed
from tests.storage.small_longterm import SPLITTER, parts_of

MANY, FEW = 30, 3


@pytest.fixture
def b(tmp_path: Path) -> Iterator[IndexBench]:
    with indexed(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("together", [True, False])
def test_what_quotes_the_forgotten_is_not_found_by_it(
    b: IndexBench, count: int, together: bool
) -> None:
    """One by one each search of the neighbours, and each of those read again, cost minutes for a
    few thousand: many are looked for in one pass.
    """
    told = [b.remember(f"word{n} spoken", tags=("gone",)) for n in range(count)]
    for n in range(count):
        b.remember(f"near {n}", context=f"then word{n} spoken aloud", tags=("gone",) * (n % 2))
    b.follow()
    living = [f"near {n}" for n in range(0, count, 2)]
    if together:
        b.forget_where(tags=("gone",))
    else:
        for memory in b.region.memories(MemoryFilter(tags=("gone",))).memories:
            b.forget(memory.id)
    for again in range(2):
        b.follow(embed=False)
        for n in range(count):
            assert b.words(f"word{n}", "context") == []
        assert set(b.words("aloud", "context", limit=99)) == set(living)
        if not again:
            b.stored.publish()
            b.reopen_all()
    for memory in told:
        b.undo(memory.id)
    b.follow(embed=False)
    for n in range(0, count, 2):
        assert b.words(f"word{n}", "context") == [f"near {n}"]
    b.forget_where(tags=("gone",))
    b.purge(2**62)
    b.follow(embed=False)
    for n in range(count):
        assert b.words(f"word{n}", "context") == []
    assert set(b.words("aloud", "context", limit=99)) == set(living)
    assert b.index.forgotten.text_of(0) is None
    assert len(b.index.forgotten) == 0


# ---- chunks --------------------------------------------------------------------------------------


def test_a_chunk_is_found_by_the_headings_it_stands_under(b: IndexBench) -> None:
    """They stand before its text, for its words and when it is embedded; what is around a memory
    is another field, which counts as much: there a heading came before what answers a question.
    """
    told = b.remember("alpha beta gamma delta")
    parts = parts_of(told, 11, context="Handbook > Refunds")
    b.region.derive(told.id, 1, parts, by="chunker", request=(0, 0), splitter=SPLITTER)
    b.commit()
    b.follow(embed=False)
    assert b.words("refunds", "text") == [told.text]
    assert b.words("refunds", "context") == []
    waiting = {one.row: one.text for one in b.index.take_waiting(9)}
    assert waiting == {
        0: "alpha beta gamma delta",
        1: "Handbook > Refunds\nalpha beta ",
        2: "Handbook > Refunds\ngamma delta",
    }
    chunks = b.chunks(told.id)
    assert [c.context for c in chunks] == ["Handbook > Refunds"] * 2
    assert "".join(c.text for c in chunks) == told.text, "the context is no part of the text"


def test_a_heading_is_its_own_texts_word_whatever_is_forgotten(b: IndexBench) -> None:
    """The words of a chunk's context are in its original: that another memory which says the same
    is forgotten, or erased, takes them from nobody, and makes no new version of a chunk.
    """
    told = b.remember("alpha beta gamma delta")
    refunds = b.remember("Refunds")
    other = b.remember("near", context="see Refunds there")
    parts = parts_of(told, 11, context="Handbook > Refunds")
    b.region.derive(told.id, 1, parts, by="chunker", request=(0, 0), splitter=SPLITTER)
    b.commit()
    b.follow()
    b.forget(refunds.id)
    for _ in range(2):
        b.follow()
        assert b.words("refunds") == [told.text]
        b.stored.publish()
        b.reopen_all()
    b.erase(refunds.id)
    b.follow()
    assert b.words("refunds") == [told.text]
    assert (b.region.get(other.id).context or "").split() == ["see", "there"]
    assert [(c.version, c.context) for c in b.chunks(told.id)] == [(1, "Handbook > Refunds")] * 2
    assert b.findings() == []


def test_what_a_chunk_repeats_is_cut_from_no_context(b: IndexBench) -> None:
    """The last chunk of a letter is "Thanks!": forgetting the letter cut that word out of what was
    indexed of every memory which has it in its context, and looked at all of them for it.
    """
    letter = b.remember("one long letter. Thanks!")
    b.remember("near", context="she said Thanks! and left")
    b.derive(letter, 4, 17, summary="and left")
    b.follow()
    assert b.words("thanks", "context") == ["near"]
    b.forget(letter.id)
    for _ in range(2):
        b.index.notice()
        assert b.words("thanks", "context") == ["near"], "noticed, and not brought yet"
        b.follow()
        assert b.words("thanks left", "context") == ["near"]
        b.stored.publish()
        b.reopen_all()
    assert len(b.index.forgotten) == 1
    b.undo(letter.id)
    b.follow()
    assert b.words("thanks", "context") == ["near"]
    assert b.words("thanks") == [letter.text]
    assert len(b.index.forgotten) == 0


def test_a_chunk_of_blanks_waits_for_no_vector(b: IndexBench) -> None:
    """There is nothing in it to embed; it was handed to the embedder, which may refuse it."""
    told = b.remember("alpha" + " " * 30 + "omega")
    b.derive(told, 5, 35)
    for _ in range(2):
        view = b.follow()
        assert (view.waiting, view.failed) == (0, 0)
        assert view.vectors_upto == view.words_upto
        assert b.near("omega") == [told.text]
        b.stored.publish()
        b.reopen_all()
