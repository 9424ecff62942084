"""Generations of the long-term tier: opened as they were, caught up with the log, or made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neverforget.storage.errors import EmbedderMismatch
from neverforget.storage.longterm_row_generations import GENERATIONS_MAX
from tests.fakes.removing import remove_indexes
from tests.storage.bytes_left import left_of
from tests.storage.small_index import IndexBench, indexed


def filled(bench: IndexBench, start: int, stop: int) -> None:
    bench.remember_many(
        *(
            bench.new(f"barn {n}\nword{n}", context=f"near{n}", speaker=f"speaker{n % 3}")
            for n in range(start, stop)
        )
    )


def check(bench: IndexBench, *numbers: int) -> None:
    """These are found by every leg, and their speakers are known."""
    bench.follow()
    for n in numbers:
        expected = [f"barn {n}\nword{n}"]
        assert bench.words(f"word{n}") == expected
        assert bench.words(f"near{n}", "context") == expected
        assert bench.near(f"word{n}", limit=1) == expected
    view = bench.index.view()
    assert view.rows.speakers_within(()) == {"speaker0", "speaker1", "speaker2"}


def test_what_was_published_is_there_again_without_embedding_anything(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 30)
        bench.follow()
        bench.stored.publish()
        view = bench.reopen_all()
        assert (view.waiting, bench.stored.findings) == (0, [])
        check(bench, 0, 17, 29)


def test_what_came_after_the_last_generation_is_taken_from_the_log(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 20)
        bench.follow()
        bench.stored.publish()
        filled(bench, 20, 25)
        first = bench.remember("about to go")
        bench.follow()
        bench.forget(first.id)
        view = bench.reopen_all()
        assert view.waiting == 5
        check(bench, 0, 19, 20, 24)
        assert bench.words("about to go") == bench.near("about to go", limit=1, tags=("x",)) == []


def test_revised_forgotten_and_restored_memories_are_what_they_are_after_opening(
    tmp_path: Path,
) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 10)
        revised, forgotten, restored = (bench.remember(f"lake {n}") for n in range(3))
        beside = bench.remember("noted", context="lake 1 and lake 2")
        bench.follow()
        bench.forget(restored.id)
        bench.follow()
        bench.stored.publish()
        bench.revise(revised.id, text="river 0")
        bench.forget(forgotten.id)
        bench.undo(restored.id)
        bench.reopen_all()
        assert bench.words("lake") == ["lake 2"]
        assert bench.words("river") == ["river 0"]
        assert bench.words("lake", "context") == [beside.text]
        view = bench.follow()
        assert set(bench.near("lake river", tags=None, types=("fact",), limit=14)) >= {
            "lake 2",
            "river 0",
        }
        gone = bench.row(forgotten)
        assert gone not in {row for row in range(14) if view.rows.living[row]}
        bench.undo(forgotten.id)
        bench.follow()
        assert set(bench.words("lake")) == {"lake 1", "lake 2"}


def test_many_generations_become_few_and_nothing_is_lost(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        for n in range(0, 3 * (GENERATIONS_MAX + 4), 3):
            filled(bench, n, n + 3)
            bench.follow()
            manifest = bench.stored.publish()
            assert len(manifest.of("rows")) <= GENERATIONS_MAX + 1
        bench.reopen_all()
        check(bench, 0, 10, 35)
        names = {part.name for part in bench.stored.manifest.parts} | {"MANIFEST"}
        assert {path.name for path in bench.derived.iterdir()} == names, "nothing is left over"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [truncate, flip, remove])
def test_every_damaged_file_is_reported_and_made_anew(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 12)
        bench.follow()
        bench.stored.publish()
        filled(bench, 12, 15)
        bench.follow()
        bench.stored.publish()
        bench.stored.close()
        whole = tmp_path / "whole"
        shutil.copytree(bench.derived, whole)
        files = [p.relative_to(whole) for p in sorted(whole.rglob("*")) if p.is_file()]
        assert len(files) > 6
        for name in files:
            if name.name in ("LOCK", ".tantivy-writer.lock", ".tantivy-meta.lock", ".managed.json"):
                continue
            remove_indexes(bench.derived)
            shutil.copytree(whole, bench.derived)
            damage(bench.derived / name)
            bench.reopen()
            bench.stored = bench.open_derived()
            missing = name.name == "MANIFEST" and damage is remove
            assert bool(bench.stored.findings) is not missing, name
            check(bench, 0, 7, 14)
            bench.stored.publish()
            assert bench.reopen_all().waiting == 0, name
            assert bench.stored.findings == [], name
            bench.stored.close()
        bench.stored = bench.open_derived()


def test_everything_is_made_anew_where_nothing_is_left(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 12)
        bench.follow()
        bench.stored.publish()
        bench.stored.close()
        remove_indexes(bench.derived)
        bench.stored = bench.open_derived()
        assert bench.index.view().waiting == 12
        check(bench, 0, 11)


def test_files_of_other_memories_are_not_believed(tmp_path: Path) -> None:
    """Whole files, but of another log: no memory is ever found under the words of another."""
    with indexed(tmp_path / "one") as one, indexed(tmp_path / "two") as two:
        filled(one, 0, 12)
        one.follow()
        one.stored.publish()
        filled(two, 50, 62)
        two.follow()
        two.stored.publish()
        two.stored.close()
        remove_indexes(two.derived)
        shutil.copytree(one.derived, two.derived)
        two.stored = two.open_derived()
        assert two.stored.findings
        assert two.words("word3") == []
        check(two, 50, 61)


def test_another_model_is_refused(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 3)
        bench.follow()
        bench.stored.publish()
        with pytest.raises(EmbedderMismatch, match="words-16"):
            bench.open_derived(model="another")


def test_words_of_an_erased_memory_are_in_no_file_after_the_next_generation(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 5)
        secret = bench.remember("xylophonequartz", speaker="Quetzalcoatlus", context="zirconflux")
        bench.remember("noted", context="before: xylophonequartz")
        bench.follow()
        bench.stored.publish()
        bench.erase(secret.id)
        bench.follow()
        bench.stored.publish()
        assert left_of(tmp_path, "xylophonequartz", "Quetzalcoatlus", "zirconflux") == []
        check(bench, 0, 4)
        assert bench.words("xylophonequartz") == bench.words("xylophonequartz", "context") == []


def test_an_erasure_before_a_crash_is_remembered_by_the_next_generation(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        filled(bench, 0, 5)
        secret = bench.remember("xylophonequartz")
        bench.follow()
        bench.stored.publish()
        bench.erase(secret.id)
        bench.reopen_all()
        bench.follow()
        bench.stored.publish()
        assert left_of(tmp_path, "xylophonequartz") == []


def test_a_store_without_an_embedder_has_words_alone_and_can_get_one_later(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.reopen_all(model=None)
        filled(bench, 0, 4)
        bench.follow()
        manifest = bench.stored.publish()
        assert manifest.of("vectors") == []
        assert bench.reopen_all().waiting == 4
        check(bench, 0, 3)
