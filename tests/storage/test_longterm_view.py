"""Searching the long-term tier: what is found, what is not, and when."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_view import rows_of_vectors, vector_ids, vector_ids_of
from tests.storage.small_index import indexed, vector, windows

MINUTE = 60_000_000


def test_words_are_found_at_once_and_meaning_when_it_is_embedded(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        memory = bench.remember("the barn is painted green")
        view = bench.follow(embed=False)
        assert bench.words("painted barn") == [memory.text]
        assert bench.near("painted barn") == []
        assert (view.waiting, view.words_upto > memory.position) == (1, True)
        assert view.vectors_upto == memory.position, "a reader of its own write can wait for it"
        view = bench.follow()
        assert bench.near("painted barn") == [memory.text]
        assert (view.waiting, view.vectors_upto) == (0, view.words_upto)


def test_a_view_stands_still(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        kept = bench.remember("an old barn")
        before = bench.follow()
        bench.remember("a new barn")
        bench.forget(kept.id)
        bench.follow()
        gate = before.gate(MemoryFilter())
        assert before.find_words("barn", 10, gate).rows == [bench.row(kept)]
        assert before.find_near(vector("barn"), 10, gate).rows == [bench.row(kept)]
        assert bench.words("barn") == ["a new barn"]


def test_what_is_forgotten_leaves_every_leg_before_the_indexes_follow(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        gone = bench.remember("a secret recipe", context="about the cellar")
        bench.remember("another recipe", context="about the cellar too")
        bench.follow()
        bench.forget(gone.id)
        bench.index.notice()  # and nothing else
        assert bench.words("recipe") == ["another recipe"]
        assert bench.words("cellar", "context") == ["another recipe"]
        assert bench.near("secret recipe") == ["another recipe"]
        bench.follow()
        assert bench.words("cellar", "context") == ["another recipe"]
        bench.undo(gone.id)
        bench.follow()
        assert bench.near("secret recipe") == ["a secret recipe", "another recipe"]


def test_a_forgotten_text_is_not_found_through_its_neighbours(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        gone = bench.remember("the safe opens with 7731")
        beside = bench.remember("thanks, noted", context="the safe opens with 7731\nsee you")
        bench.follow()
        assert bench.words("7731", "context") == [beside.text]
        bench.forget(gone.id)
        bench.index.notice()
        assert bench.words("7731", "context") == [], "at once, before the indexes follow"
        scores = bench.index.view().word_scores("7731", [bench.row(beside)], "context")
        assert scores == {bench.row(beside): 0.0}, "nor does it add to what others found"
        bench.follow()
        assert bench.words("7731", "context") == []
        assert bench.words("see you later", "context") == [beside.text]
        later = bench.remember("noted as well", context="oh: the safe opens with 7731!")
        bench.follow()
        assert bench.words("7731", "context") == [], "nor through one that comes later"
        bench.undo(gone.id)
        bench.follow()
        assert set(bench.words("7731", "context")) == {beside.text, later.text}


def test_forgetting_a_word_takes_nothing_out_of_longer_ones(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        gone = bench.remember("yes")
        bench.remember("noted", context="yesterday we sailed")
        bench.follow()
        bench.forget(gone.id)
        bench.follow()
        assert bench.words("yesterday", "context") == ["noted"]


def test_a_revision_is_found_by_its_new_text_only(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        memory = bench.remember("the barn is green")
        bench.follow()
        bench.revise(memory.id, text="the shed is blue")
        view = bench.follow(embed=False)
        assert bench.words("barn green") == []
        assert bench.words("shed") == ["the shed is blue"]
        assert (bench.near("shed"), view.waiting) == ([], 1)
        bench.follow()
        assert bench.near("shed") == ["the shed is blue"]


def test_a_memory_is_waited_for_though_an_older_one_was_revised_after_it(tmp_path: Path) -> None:
    """Found by eight threads, each remembering, recalling and revising one memory of all: what was
    noticed at once waited in the order of rows, so that the revision, whose place in the log comes
    last, stood first and said that everything before it was embedded.
    """
    with indexed(tmp_path) as bench:
        old = bench.remember("the barn is green")
        bench.follow()
        new = bench.remember("the shed is blue")
        end = bench.region.written
        bench.revise(old.id, text="the barn is red")
        assert bench.follow(embed=False).vectors_upto < end
        (taken,) = bench.index.take_waiting(1)
        assert taken.row == bench.row(new), "the oldest write first"
        bench.embed(taken)
        assert end <= bench.index.view().vectors_upto < bench.region.written


def test_chunks_hold_up_nobody_who_remembers_after_them(tmp_path: Path) -> None:
    """450 kB of text kept ten short memories without vectors for a minute: its chunks came first,
    and whoever recalled waited for them.
    """
    with indexed(tmp_path) as bench:
        long = bench.remember("the barn is green and the shed is blue")
        bench.follow()
        bench.derive(long, 10, 20)
        short = bench.remember("the house is white")
        end = bench.region.written
        view = bench.follow(embed=False)
        assert view.waiting == 4 and view.vectors_upto < end
        (taken,) = bench.index.take_waiting(1)
        assert taken.row == bench.row(short), "before the chunks, which are older"
        bench.embed(taken)
        assert bench.index.view().vectors_upto == end
        assert [one.text for one in bench.index.take_waiting(9)] == [
            "the barn i", "s green an", "d the shed is blue",
        ]  # fmt: skip


def test_chunks_of_blanks_hide_nothing_that_waits_behind_them(tmp_path: Path) -> None:
    """Where all that were looked at were blank, nothing seemed to be left to be embedded."""
    with indexed(tmp_path) as bench:
        long = bench.remember("barn" + " " * 40 + "shed")
        bench.follow()
        bench.derive(long, 4, 10, 20, 30, 44)
        bench.follow(embed=False)
        (first,) = bench.index.take_waiting(1)
        (second,) = bench.index.take_waiting(2)
        assert (first.text, second.text) == ("barn", "shed")
        assert bench.index.take_waiting(2) == []


def test_vectors_of_a_text_that_changed_meanwhile_are_dropped(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        memory = bench.remember("the barn is green")
        bench.follow(embed=False)
        (taken,) = bench.index.take_waiting(10)
        assert bench.index.take_waiting(10) == [], "taken once"
        bench.revise(memory.id, text="the shed is blue")
        bench.follow(embed=False)
        assert not bench.embed(taken)
        (again,) = bench.index.take_waiting(10)
        assert (again.text, bench.embed(again)) == ("the shed is blue", True)


def test_what_cannot_be_embedded_is_found_by_words_and_waited_for_no_longer(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("one barn")
        bench.remember("two barns")
        bench.follow(embed=False)
        one, two = bench.index.take_waiting(10)
        bench.index.failed(one, "the model refuses it")
        bench.index.put_back(two)
        view = bench.follow()
        assert (view.failed, view.waiting) == (1, 0)
        assert set(bench.words("barn")) == {"one barn", "two barns"}
        assert bench.near("barn") == ["two barns"]
        assert list(bench.index.failed_rows.values()) == ["the model refuses it"]
        bench.remember("three barns")
        bench.follow(embed=False)
        (three,) = bench.index.take_waiting(10)
        with pytest.raises(InvalidArgument):
            bench.index.embedded(three, np.zeros((1, 16), np.float32))
        assert bench.index.waiting == 1, "nothing is made up in its place"


def test_a_memory_of_many_windows_is_found_once(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        long = bench.remember("\n".join(f"barn number {n}" for n in range(40)))
        others = [bench.remember(f"barn and tree {n}") for n in range(6)]
        bench.follow()
        found = bench.near("barn number", limit=5)
        assert found[0] == long.text and len(found) == len(set(found)) == 5
        assert len(bench.near("barn", limit=50)) == 1 + len(others)
        bench.forget(long.id)
        view = bench.follow()
        assert view.vectors is not None and len(view.vectors) == len(others)


def test_ids_of_vectors_say_which_row_and_lie_densely() -> None:
    ids = vector_ids(5, 20)
    assert len(np.unique(ids)) == 20 and (rows_of_vectors(ids) == 5).all()
    assert ids[:8].tolist() == list(range(40, 48))
    assert np.intersect1d(ids, vector_ids(6, 5000)).size == 0


def test_chunks_point_to_their_original_which_the_filter_judges(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        memory = bench.remember("a green barn and far away a blue lake", tags=("place",))
        bench.derive(memory, 13)
        bench.remember("a lake of milk")
        view = bench.follow()
        gate = view.gate(MemoryFilter(types=("fact",), tags=("place",)))
        found = view.find_words("lake", 10, gate)
        assert found.rows == [bench.row(memory)] and found.parts != found.rows
        assert bench.near("blue lake", types=("fact",)) == [memory.text, "a lake of milk"]
        scores = view.word_scores("lake", [*found.rows, *found.parts])
        assert scores[found.parts[0]] == pytest.approx(found.scores[0])
        assert 0 < scores[found.rows[0]] < scores[found.parts[0]], "each by itself"
        bench.forget(memory.id)
        bench.follow()
        assert bench.words("lake") == ["a lake of milk"]


@pytest.mark.parametrize("field", ["text", "vector"])
def test_filters_work_inside_the_search_and_find_all_there_is(tmp_path: Path, field: str) -> None:
    """Few of many: what the filter wants lies far behind the nearest."""
    with indexed(tmp_path) as bench:
        new = [
            bench.new(
                "barn " * (1 + n % 7) + f"tree{n}",
                namespace=("farm", f"p{n % 60}"),
                tags=("rare:one",) if n % 100 == 7 else ("often",),
                metadata={"n": n},
                occurred_at=n * MINUTE,
            )
            for n in range(300)
        ]
        bench.remember_many(*new)
        bench.follow()
        find = bench.words if field == "text" else bench.near

        def texts(*numbers: int) -> set[str]:
            return {new[n].text for n in numbers}

        assert set(find("barn", tags=("rare",))) == texts(7, 107, 207)
        assert set(find("barn", namespace=("farm", "p5"))) == texts(5, 65, 125, 185, 245)
        assert set(find("barn", where={"metadata.n": {"$gte": 296}})) == texts(*range(296, 300))
        assert set(find("barn", timeframe=(10 * MINUTE, 13 * MINUTE))) == texts(10, 11, 12)
        assert find("barn", namespace=("elsewhere",)) == []
        assert len(find("barn", limit=250)) == 250
        with pytest.raises(InvalidArgument):
            find("barn", where={"what": 1})


def test_archived_ones_are_found_when_they_are_asked_for(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        memory = bench.remember("an old barn")
        bench.follow()
        bench.archive(memory.id)
        bench.follow()
        assert bench.words("barn") == bench.near("barn") == []
        assert bench.words("barn", status=None) == bench.near("barn", status=None) == [memory.text]


def test_a_leg_scores_what_another_found_as_it_would_have(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        for n in range(30):
            bench.remember("barn " * (1 + n % 3) + f"word{n}\nmore of the barn {n}")
        view = bench.follow()
        gate = view.gate(MemoryFilter())
        near = view.find_near(vector("barn word3"), 30, gate)
        assert view.near_scores(vector("barn word3"), near.rows) == pytest.approx(
            dict(zip(near.rows, near.scores)), abs=1e-6
        )
        words = view.find_words("barn word3", 30, gate)
        assert view.word_scores("barn word3", words.rows) == pytest.approx(
            dict(zip(words.rows, words.scores)), rel=1e-5
        )
        assert view.word_scores("zebra", [1, 2]) == {1: 0.0, 2: 0.0}


def test_speakers_are_known_by_namespace(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        one = bench.remember("hello", speaker="Ylva", namespace=("a",))
        two = bench.remember("hi", speaker="Tomasz", namespace=("a", "b"))
        bench.remember("hey", namespace=("c",))
        view = bench.follow()
        assert view.rows.speakers_within(("a",)) == {"Ylva", "Tomasz"}
        assert view.rows.speakers_within(("a", "b")) == {"Tomasz"}
        assert view.rows.speakers_within(("c",)) == set()
        rows = [bench.row(one), bench.row(two)]
        assert view.rows.spoken_by(rows, "Tomasz").tolist() == [False, True]
        assert view.rows.spoken_by(rows, "Nobody").tolist() == [False, False]


def test_an_index_without_an_embedder_waits_for_nothing(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("a barn")
        view = bench.reopen_all(model=None)
        assert view.vectors is None and view.waiting == 0
        assert bench.words("barn") == ["a barn"]
        assert bench.near("barn") == []


def test_searches_on_other_threads_never_see_what_was_forgotten(tmp_path: Path) -> None:
    """A view taken after the owner noticed it, whatever the indexer does meanwhile."""
    with indexed(tmp_path) as bench:
        memories = [bench.remember(f"barn {n}\nmore barn", tags=(f"t{n % 3}",)) for n in range(60)]
        bench.follow()
        gone: set[int] = set()
        wrong: list[object] = []
        done = threading.Event()

        def search() -> None:
            try:
                while not done.is_set():
                    known = set(gone)
                    view = bench.index.view()
                    gate = view.gate(
                        MemoryFilter(tags=("t1",)) if len(known) % 2 else MemoryFilter()
                    )
                    found = view.find_words("barn", 40, gate).rows
                    found += view.find_near(vector("barn"), 40, gate).rows
                    wrong.extend(known.intersection(found))
            except Exception as error:  # reported below, in the thread of the test
                wrong.append(error)

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        for n, memory in enumerate(memories[:40]):
            bench.forget(memory.id)
            bench.index.notice()
            gone.add(bench.row(memory))
            if n % 4 == 0:
                bench.remember(f"barn again {n}", tags=(f"new{n}",))
                bench.follow()
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_ids_of_rows_hold_every_window(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("\n".join(f"barn {n}" for n in range(20)))
        bench.remember("one line")
        view = bench.follow()
        assert view.vectors is not None
        ids = vector_ids_of(view.vectors, np.array([0]))
        assert len(view.vectors.vectors(ids)[0]) == len(windows("x\n" * 20))
