"""A generation is stored while its owner writes and its indexer follows; texts, tables and vectors
come back from it as the log would tell them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.storage import longterm_generations, longterm_storing, manifest
from neverforget.storage.errors import EmbedderMismatch, OutOfSpace
from neverforget.storage.longterm_bodies import LogBodies
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_row_generations import GenerationBodies
from neverforget.storage.longterm_view import rows_of_vectors
from neverforget.storage.longterm_where import Where
from neverforget.storage.table_file import stored_table
from neverforget.storage.vector_index import VectorBase
from tests.storage.bytes_left import left_of
from tests.storage.small_index import BOUNDS, DIMENSION, MODEL, IndexBench, indexed, windows


def told(bench: IndexBench, start: int, stop: int, **fields: Any) -> list[str]:
    news = [bench.new(f"barn {n}\nword{n}", speaker=f"who{n % 3}") for n in range(start, stop)]
    return [memory.id for memory in bench.remember_many(*news, **fields).memories]


def follow(bench: IndexBench, index: LongTermIndex) -> None:
    index.notice()
    index.bring()
    for one in index.take_waiting(1000):
        index.embedded(one, windows(one.text))


def test_everything_goes_on_while_a_generation_is_written(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 30)
        bench.follow()
        bench.stored.publish()
        bench.forget(ids[1])
        told(bench, 30, 40)
        bench.follow()
        publication = bench.stored.begin()
        bench.forget(ids[2])
        bench.revise(ids[3], text="river 3")
        told(bench, 40, 45)
        bench.follow()
        assert bench.words("word2") == [] and bench.words("river") == ["river 3"]
        assert publication.run()
        bench.undo(ids[1])
        bench.forget(ids[4])
        bench.follow()
        assert bench.stored.finish(publication) is not None

        def check() -> None:
            for n in (0, 1, 29, 35, 44):
                assert (
                    bench.words(f"word{n}") == bench.near(f"word{n}", 1) == [f"barn {n}\nword{n}"]
                )
            for n in (2, 3, 4):
                assert bench.words(f"word{n}") == []
            assert bench.words("river") == bench.near("river 3", 1) == ["river 3"]

        check()
        view = bench.reopen_all()
        assert bench.stored.findings == [] and view.waiting > 0
        bench.follow()
        check()


def test_an_erasure_meanwhile_makes_it_worthless_and_the_next_holds_nothing_of_it(
    tmp_path: Path,
) -> None:
    with indexed(tmp_path) as bench:
        told(bench, 0, 5)
        secret = bench.remember("xylophonequartz", speaker="Quetzalcoatlus", tags=("zirconflux",))
        bench.follow()
        before = bench.stored.publish()
        told(bench, 5, 8)
        bench.follow()
        publication = bench.stored.begin()
        bench.erase(secret.id)
        bench.index.notice()
        assert not publication.run()
        assert bench.stored.finish(publication) is None
        assert bench.stored.manifest == before and bench.index.erased
        bench.follow()
        publication = bench.stored.begin()
        ids = told(bench, 8, 10)
        bench.follow()
        bench.forget(ids[1])
        bench.follow()
        assert publication.run() and bench.stored.finish(publication) is not None
        assert not bench.index.erased
        assert bench.words("word8") == ["barn 8\nword8"] and bench.words("word9") == []
        assert left_of(tmp_path, "xylophonequartz", "Quetzalcoatlus", "zirconflux") == []


def test_a_vector_of_what_is_erased_as_it_begins_is_in_no_file(tmp_path: Path) -> None:
    """The owner had erased between the last words that were brought and the beginning: the next
    base took its vector along, and counted as clean.
    """
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 5)
        bench.follow()
        bench.stored.publish()
        row = bench.region.row(ids[2])
        bench.erase(ids[2])
        bench.index.notice()
        publication = bench.stored.begin()
        assert publication.run() and bench.stored.finish(publication) is not None
        assert not bench.index.erased
        (part,) = bench.stored.manifest.of("vectors")
        assert part.seal is not None
        base = VectorBase.load(bench.fs, bench.derived / part.name, part.seal, DIMENSION)
        assert sorted({*range(5)} - {row}) == sorted(set(rows_of_vectors(base.ids).tolist()))
        bench.follow()
        assert bench.words("word2") == [] and bench.near("word3", 1) == ["barn 3\nword3"]


def test_an_erasure_counts_as_done_when_the_old_files_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was answered a moment before; and one that came in that moment counted as done with it."""
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 5)
        bench.follow()
        bench.stored.publish()
        bench.erase(ids[2])
        bench.follow()
        publication = bench.stored.begin()
        assert publication.run()

        def collect(*asked: Any, **how: Any) -> list[str]:
            assert bench.index.erased
            bench.erase(ids[3])
            bench.index.notice()
            return manifest.collect(*asked, **how)

        monkeypatch.setattr(longterm_storing, "collect", collect)
        bench.stored.finish(publication)
        assert bench.index.erased
        monkeypatch.undo()
        bench.follow()
        bench.stored.publish()
        assert not bench.index.erased


def test_one_that_failed_is_abandoned_and_the_next_brings_everything(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        told(bench, 0, 10)
        bench.follow()
        bench.stored.publish()
        told(bench, 10, 20)
        bench.follow()
        for anew in (False, True):
            publication = bench.stored.begin(anew=anew)

            def full() -> None:
                raise OutOfSpace("no room")

            publication.pause = full
            with pytest.raises(OutOfSpace):
                publication.run()
            bench.stored.abandon(publication)
            assert bench.words("word19") == ["barn 19\nword19"]
        bench.stored.publish()
        assert bench.reopen_all().waiting == 0
        assert bench.words("word19") == bench.near("word19", 1) == ["barn 19\nword19"]


def test_a_no_op_of_the_owner_does_not_stand_in_the_way(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        told(bench, 0, 3)
        bench.follow()
        bench.region.noop_if_idle()
        bench.stored.publish()
        assert bench.reopen_all().waiting == 0


# ---- vectors on their own turn -------------------------------------------------------------------


def vectors_in(bench: IndexBench) -> list[str]:
    return [part.name for part in bench.stored.manifest.of("vectors")]


def words_alone(bench: IndexBench) -> None:
    publication = bench.stored.begin(vectors=False)
    assert publication.run() and bench.stored.finish(publication) is not None


def test_words_are_stored_without_vectors_and_these_are_embedded_again_after_a_crash(
    tmp_path: Path,
) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 6)
        bench.follow()
        bench.stored.publish()
        before = vectors_in(bench)
        told(bench, 6, 9)
        bench.revise(ids[0], text="river 0")
        bench.forget(ids[1])
        bench.follow()
        assert bench.stored.unsaved_vectors == 3 * 2 + 1  # of three memories, and of the river
        words_alone(bench)
        assert vectors_in(bench) == before
        assert bench.near("word7", 1) == ["barn 7\nword7"]
        assert bench.reopen_all().waiting == 4
        assert bench.words("word7") == ["barn 7\nword7"] and bench.words("word1") == []
        bench.follow()
        for n in (2, 5, 6, 8):
            assert bench.near(f"word{n}", 1) == [f"barn {n}\nword{n}"]
        assert bench.near("river 0", 1) == ["river 0"]
        assert "barn 1\nword1" not in bench.near("word1", 10)


@pytest.mark.parametrize("store", [False, True])
def test_vectors_have_a_turn_of_their_own_beside_writes_and_generations(
    tmp_path: Path, store: bool
) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 8)
        bench.follow()
        bench.stored.publish()
        told(bench, 8, 12)
        bench.follow()
        turn = bench.stored.begin_folding(store=store)
        told(bench, 12, 14)
        bench.forget(ids[0])
        bench.follow()
        words_alone(bench)
        turn.run()
        bench.revise(ids[1], text="river 1")
        told(bench, 14, 15)
        bench.follow()
        words_alone(bench)  # which removes no file that is about to be named
        bench.stored.finish_folding(turn)
        assert bench.stored.unsaved_vectors == (7 if store else 7 + 4 * 2)
        for _ in range(2):
            for n in (2, 9, 13, 14):
                assert bench.near(f"word{n}", 1) == [f"barn {n}\nword{n}"]
            assert bench.near("river 1", 1) == ["river 1"]
            assert "barn 0\nword0" not in bench.near("word0", 20)
            words_alone(bench)
            assert bench.stored.findings == []
            assert bench.reopen_all().waiting == (4 if store else 8)
            bench.follow()


def test_a_turn_that_failed_leaves_the_vectors_as_they_were(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        told(bench, 0, 5)
        bench.follow()
        turn = bench.stored.begin_folding(store=True)
        turn.run()
        bench.stored.abandon_folding(turn)
        assert bench.near("word3", 1) == ["barn 3\nword3"]
        bench.stored.publish()
        assert len([*bench.derived.glob("vectors-*")]) == 1
        assert bench.reopen_all().waiting == 0


def test_what_was_erased_during_a_turn_is_in_no_file_after_the_next_generation(
    tmp_path: Path,
) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 5)
        bench.follow()
        turn = bench.stored.begin_folding(store=True)
        turn.run()
        bench.erase(ids[2])
        bench.follow()
        bench.stored.finish_folding(turn)
        assert turn.name is not None and (bench.derived / turn.name).exists()
        bench.stored.publish()
        assert not (bench.derived / turn.name).exists()
        assert bench.index.vectors is not None and len(bench.index.vectors) == 4 * 2


# ---- opening -------------------------------------------------------------------------------------


def test_the_table_of_a_generation_tells_what_the_whole_log_would(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 20)
        bench.tag(ids[0], "a:b")
        bench.relate(ids[1], ids[2], "about")
        bench.relate(ids[3], ids[4], "about")
        bench.erase(ids[4])
        bench.follow()
        bench.stored.publish()
        bench.forget(ids[5])
        bench.archive(ids[6])
        bench.untag(ids[0], "a:b")
        bench.remember("later", tags=("c",), speaker="new", key="k")
        whole = bench.all_there_is()
        table = stored_table(bench.fs, bench.derived, bench.region.state.log_id)
        assert table is not None and table.upto == bench.stored.manifest.watermark
        for derived in (None, bench.derived):
            bench.stored.close()
            bench.region.close()
            bench.region = bench.open(derived=derived)
            assert bench.region.state.replayed_from == (table.upto if derived else 0)
            assert bench.all_there_is() == whole
            bench.stored = bench.open_derived()
            speakers = bench.index.view().rows.speakers_within(())
            assert speakers == {"who0", "who1", "who2", "new"}


def test_a_table_of_a_log_that_has_lost_a_record_is_not_believed(tmp_path: Path) -> None:
    """Its rows would say what no record says: the log tells it all then."""
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 5)
        bench.follow()
        bench.stored.publish()
        bench.stored.close()
        bench.region.seal()
        bench.region.close()
        (segment,) = (bench.directory / "log").glob("*.seg")
        data = bytearray(segment.read_bytes())
        last = data.rindex(b"barn 4")
        data[last - 64 : last] = bytes(64)
        segment.write_bytes(data)
        for side in (bench.directory / "log").glob("*.heads"):
            side.unlink()
        bench.region = bench.open(derived=bench.derived)
        assert [m.id for m in bench.region.memories(MemoryFilter(), limit=9).memories] != ids
        bench.stored = bench.open_derived()


def test_texts_of_a_generation_are_those_of_the_log(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        odd: dict[str, Any] = {"metadata": {"a": [1, 1.0, None, {"ü": b"\0"}]}, "tags": ("x", "y")}
        ids = [
            bench.remember("plain").id,
            bench.remember("all", key="k", source="s", agent="a", speaker="w", occurred_at=-5,
                           context="c", valid_from=1, valid_to=2, namespace=("n", "m"), **odd).id,
            bench.remember("lone \ud800 surrogate", speaker="\udfff").id,
            bench.remember("x" * 5000).id,
        ]  # fmt: skip
        bench.revise(ids[0], text="plain again")
        bench.derive(bench.region.view(bench.region.row(ids[3])), 2000, summary="short")
        gone = bench.remember("to be erased")
        positions = bench.region.state.table.column("position").tolist()
        bench.follow(embed=False)
        bench.stored.publish()
        state = bench.region.state
        bodies, log = state.bodies, LogBodies(state.log, state.is_erased_at)
        assert isinstance(bodies, GenerationBodies)
        bodies.log = Silent()
        for position in positions:
            assert bodies.read(position) == log.read(position)
        asked = Where({"metadata.a": 1, "key": "k", "speaker": "w", "importance": 1.0}).fields
        for number, body in bodies.read_many(np.array(positions, np.uint64), asked):
            whole = log.read(positions[number])[1]
            assert {f: body.get(f) or None for f in asked} == {f: whole.get(f) for f in asked}
            positions[number] = 0
        assert not any(positions), "each of them once"
        positions = bench.region.state.table.column("position").tolist()
        bodies.log = log
        (generation,) = bodies._generations
        held, generation._positions = generation._positions, []  # half closed, by another thread
        assert bodies.read(positions[0]) == log.read(positions[0]), "recalls met an IndexError"
        generation._positions = held
        bench.erase(gone.id)
        with pytest.raises(Exception, match="erased"):
            bodies.read(positions[-1])


class Silent:
    """A log that nobody may ask."""

    def read(self, position: int) -> Any:
        raise AssertionError(f"{position} was read from the log")

    def read_many(self, positions: Any, fields: Any) -> Any:
        raise AssertionError("the log was read")


def test_it_opens_at_a_moment_while_its_owner_goes_on(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 10)
        bench.follow()
        bench.stored.publish()
        told(bench, 10, 12)
        bench.stored.close()
        moment = Moment.of(bench.region.state)
        bench.forget(ids[0])
        bench.revise(ids[1], text="river 1")
        told(bench, 12, 14)
        bench.stored = bench.open_derived(moment=moment)
        bench.follow()
        assert bench.words("word0") == bench.words("word1") == []
        assert bench.words("river") == bench.near("river 1", 1) == ["river 1"]
        for n in (2, 11, 13):
            assert bench.words(f"word{n}") == bench.near(f"word{n}", 1) == [f"barn {n}\nword{n}"]


def test_many_memories_behind_a_generation_are_loaded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longterm_generations, "COMMIT_DOCUMENTS", 5)
    with indexed(tmp_path) as bench:
        ids = told(bench, 0, 6)
        quoting = bench.remember("lake", context="barn 1\nword1")
        bench.follow()
        bench.stored.publish()
        told(bench, 6, 12)
        bench.revise(ids[0], text="river 0")
        bench.forget(ids[1])
        bench.erase(ids[2])
        for _ in range(2):
            bench.reopen_all()
            assert bench.index.text.watermark == bench.index.upto
            for n in (3, 6, 11):
                assert bench.words(f"word{n}") == [f"barn {n}\nword{n}"]
            assert bench.words("river") == ["river 0"]
            assert bench.words("word0") == bench.words("word1") == bench.words("word2") == []
            assert bench.words("word1", "context") == []
        bench.undo(ids[1])
        bench.reopen_all()
        bench.follow()
        assert bench.words("word1", "context") == [quoting.text]


# ---- vectors, later ------------------------------------------------------------------------------


def test_a_store_whose_dimension_is_not_known_has_words_and_gets_its_vectors_later(
    tmp_path: Path,
) -> None:
    with indexed(tmp_path) as bench:
        bench.reopen_all(model=None, expects_vectors=True)
        told(bench, 0, 6)
        assert bench.follow().waiting == 6 and bench.index.take_waiting(9) == []
        assert bench.words("word3") == ["barn 3\nword3"]
        bench.stored.publish()
        bench.stored.begin_vectors(MODEL, DIMENSION)
        assert bench.index.view().waiting == 6
        view = bench.follow()
        assert view.waiting == 0 and bench.near("word3", 1) == ["barn 3\nword3"]
        bench.stored.publish()
        assert bench.reopen_all().waiting == 0


def test_vectors_are_kept_while_nobody_says_what_they_are_of(tmp_path: Path) -> None:
    """An endpoint was down at the start: the vectors of yesterday must not be embedded again."""
    with indexed(tmp_path) as bench:
        told(bench, 0, 6)
        bench.follow()
        bench.stored.publish()
        bench.reopen_all(model=None, expects_vectors=True)
        told(bench, 6, 8)
        bench.follow()
        bench.stored.publish()
        with pytest.raises(EmbedderMismatch):
            bench.stored.begin_vectors("another", DIMENSION)
        bench.stored.begin_vectors(MODEL, DIMENSION)
        assert bench.index.view().waiting == 2
        bench.follow()
        assert bench.near("word1", 1) == ["barn 1\nword1"]
        assert bench.near("word7", 1) == ["barn 7\nword7"]


def test_bounds_are_those_that_were_given(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.reopen_all(model=None, expects_vectors=True)
        bench.stored.begin_vectors(MODEL, DIMENSION)
        assert isinstance(bench.stored, Generations)
        assert bench.index.vectors is not None and bench.index.vectors.bounds == BOUNDS
