"""What a filter lets through: kept from search to search, and never stale."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.storage import longterm_gate, longterm_index, longterm_rows
from neverforget.storage.longterm_deriving import METADATA_BYTES_MAX
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_row_generations import GenerationBodies
from neverforget.storage.longterm_rows import SearchRows
from neverforget.storage.longterm_view import LongTermView
from tests.storage.small_index import IndexBench, indexed, vector


class CountedBodies:
    """Counts what is read."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.reads = inner, 0

    def read(self, position: int) -> Any:
        self.reads += 1
        return self.inner.read(position)

    def read_many(self, positions: Any, fields: Any) -> Any:
        self.reads += len(positions)
        return self.inner.read_many(positions, fields)


def counted(view: LongTermView) -> CountedBodies:
    bodies = CountedBodies(view.bodies)
    object.__setattr__(view, "bodies", bodies)
    return bodies


def many(bench: IndexBench, count: int) -> None:
    bench.remember_many(
        *(
            bench.new(
                f"barn {n} " + "tree " * (n % 7), metadata={"n": n % 100}, tags=(f"t{n % 3}",)
            )
            for n in range(count)
        )
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (longterm_rows, longterm_gate):
        monkeypatch.setattr(module, "BLOCK_ROWS", 4)
    monkeypatch.setattr(longterm_gate, "_AT_ONCE", 10)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("leg", ["words", "near"])
def test_a_rare_where_is_found_whole_and_asks_each_record_once(tmp_path: Path, leg: str) -> None:
    """It passed for nothing among the best 5, and the search went on asking for more and more."""
    with indexed(tmp_path) as bench:
        many(bench, 300)
        bench.follow()
        view = bench.index.view()
        bodies = counted(view)

        def found(n: int, **how: Any) -> set[int]:
            gate = view.gate(MemoryFilter(where={"metadata.n": n}, **how))
            if leg == "words":
                return set(view.find_words("barn", 5, gate).rows)
            return set(view.find_near(vector("barn"), 5, gate).rows)

        assert found(97) == {97, 197, 297}
        assert bodies.reads <= 300
        before = bodies.reads
        assert found(97) == {97, 197, 297}
        assert bodies.reads == before, "what was found out is kept"
        assert found(3, tags=("t1",)) == {103}
        assert bodies.reads <= before + 100, "no more than the other filters let through"


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("more", [{}, {"large": "x" * METADATA_BYTES_MAX}])
def test_a_where_judges_chunks_by_their_original(tmp_path: Path, more: dict[str, Any]) -> None:
    """Whether they carry its metadata, or it is too large for that."""
    with indexed(tmp_path) as bench:
        many(bench, 30)
        text = "a green barn and far away a blue lake"
        memory = bench.remember(text, metadata={"kept": True} | more)
        bench.derive(memory, 13)
        bench.follow()
        assert bench.words("lake", where={"metadata.kept": True}) == [memory.text]
        assert bench.words("lake", where={"metadata.kept": False}) == []


@pytest.mark.usefixtures("small_blocks")
def test_what_is_kept_follows_every_change(tmp_path: Path) -> None:
    """Masks kept by block against masks made from nothing, through changes of all kinds."""
    rng = random.Random(11)
    with indexed(tmp_path) as bench:
        wanted = [
            MemoryFilter(),
            MemoryFilter(tags=("odd",)),
            MemoryFilter(namespace=("a",)),
            MemoryFilter(types=("fact",), status="archived"),
            MemoryFilter(status=None),
        ]
        where = MemoryFilter(where={"metadata.n": {"$gte": 5}})
        memories = []
        for step in range(60):
            if step < 8 or rng.random() < 0.4:
                place: tuple[str, ...] = ("a", f"b{step % 2}") if rng.random() < 0.5 else ()
                tags = ("odd:one",) if step % 2 else ()
                memories.append(
                    bench.remember(f"barn {step}", namespace=place, tags=tags, metadata={"n": step})
                )
            else:
                memory = rng.choice(memories)
                change = rng.choice(["forget", "archive", "tag", "revise"])
                if change == "revise":
                    bench.revise(memory.id, metadata={"n": rng.randrange(10)})
                elif change == "tag":
                    bench.tag(memory.id, "odd")
                else:
                    memories.remove(memory)
                    (bench.forget if change == "forget" else bench.archive)(memory.id)
            view = bench.follow(embed=False)
            fresh = SearchRows(bench.region.state.table)
            fresh.take(np.arange(bench.region.state.table.count))
            for one in wanted:
                assert view.rows.passing(one).tolist() == fresh.view().passing(one).tolist()
            gate = view.gate(where)
            gate.settle()
            there = {m.id for m in bench.region.memories(where, limit=100).memories}
            rows = {bench.region.row(each) for each in there}
            assert set(np.flatnonzero(gate.mask).tolist()) == rows


def test_a_view_of_nothing_new_is_the_same_one(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("a barn")
        view = bench.follow(embed=False)
        (one,) = bench.index.take_waiting(1)
        bench.embed(one)
        assert bench.index.view() is not view
        assert bench.index.view().rows is view.rows, "with all that it has worked out"


def test_many_forgotten_texts_turn_contexts_off_until_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longterm_index, "_HIDDEN_MAX", 2)
    with indexed(tmp_path) as bench:
        gone = [bench.remember(f"secret number {n} is told") for n in range(3)]
        bench.remember("noted", context="by the lake; secret number 1 is told")
        bench.remember("seen", context="by the lake")
        bench.follow()
        for memory in gone[:2]:
            bench.forget(memory.id)
        bench.index.notice()
        assert bench.words("lake", "context") == ["seen"]
        bench.forget(gone[2].id)
        bench.index.notice()
        assert bench.words("lake", "context") == []
        bench.follow()
        assert set(bench.words("lake", "context")) == {"noted", "seen"}
        assert bench.words("secret number", "context") == []


def test_a_lone_where_reads_columns_of_generations_and_records_of_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of them was decoded whole, 20 us, and checked: 2 s for 100,000 memories."""
    monkeypatch.setattr(longterm_gate, "_AT_ONCE", 10)
    read: list[int] = []
    real = GenerationBodies.read

    def counted_read(bodies: GenerationBodies, position: int) -> Any:
        read.append(position)
        return real(bodies, position)

    with indexed(tmp_path) as bench:
        many(bench, 300)
        bench.remember("lone \ud800 surrogate", metadata={"n": 97})
        bench.follow(embed=False)
        bench.stored.publish()
        later = bench.remember("barn later", metadata={"n": 97})
        bench.follow(embed=False)
        monkeypatch.setattr(GenerationBodies, "read", counted_read)
        gate = bench.index.view().gate(MemoryFilter(where={"metadata.n": 97}))
        gate.settle()
        assert np.flatnonzero(gate.mask).tolist() == [97, 197, 297, 300, 301]
        state = bench.region.state
        assert read == state.table.column("position")[[300, 301]].tolist()
        bench.erase(later.id)
        bench.follow(embed=False)
        damage(bench)
        read.clear()
        gate = bench.index.view().gate(MemoryFilter(where={"metadata.n": {"$eq": 97}}))
        gate.settle()
        assert np.flatnonzero(gate.mask).tolist() == [97, 197, 297, 300]
        assert len(read) == 301, "of a damaged file nothing is believed"


def damage(bench: IndexBench) -> None:
    """Flip a byte in the middle of the rows, of which nobody has looked at all yet."""
    (path,) = bench.derived.glob("rows-*")
    generations = bench.region.state.bodies
    assert isinstance(generations, GenerationBodies)
    for generation in generations._generations:
        generation._checked = False
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
