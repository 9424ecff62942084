"""A long-term store with everything derived from it, through random operations, generations and
reopenings, against a model: field report 23. Every thousand operations ``verify`` holds, the ids in
the indexes are those of what lives, and no forgotten neighbour comes back.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from neverforget.storage.errors import NotFound
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_view import rows_of_vectors
from tests.fakes.removing import remove_indexes
from tests.storage.small_index import IndexBench
from tests.storage.small_longterm import SPLITTER, parts_of


@dataclass
class Modelled:
    text: str
    status: str = "active"


class Machine:
    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.directory, self.rng = directory, rng
        self.bench = IndexBench(directory)
        self.known: dict[str, Modelled] = {}
        self.said = 0

    def new_text(self) -> str:
        self.said += 1
        return f"word{self.said} common{self.said % 7}"

    def some(self, *statuses: str) -> str | None:
        fitting = [name for name, held in self.known.items() if held.status in statuses]
        return self.rng.choice(fitting) if fitting else None

    # ---- operations ------------------------------------------------------------------------------

    def step(self) -> None:
        does = self.rng.choices(
            [self.remember, self.revise, self.tag, self.forget, self.undo, self.archive, self.erase,
             self.purge, self.follow, self.publish, self.reopen, self.crash, self.chunk],
            [40, 15, 8, 15, 5, 5, 1, 0.5, 8, 1.5, 0.5, 0.5, 10],
        )[0]  # fmt: skip
        does()

    def remember(self) -> None:
        text = self.new_text()
        context = self.rng.choice([None, f"beside near{self.said}"])
        self.known[self.bench.remember(text, context=context).id] = Modelled(text)

    def revise(self) -> None:
        if (name := self.some("active", "archived")) is not None:
            self.known[name].text = text = self.new_text()
            self.bench.revise(name, text=text)

    def chunk(self) -> None:
        """Cut between the words, once for each version."""
        if (name := self.some("active")) is not None and not self.bench.chunks(name):
            told = self.bench.region.get(name)
            parts = parts_of(told, told.text.index(" ") + 1, context="a title")
            self.bench.region.derive(
                name, told.version, parts, by="chunker", request=(0, 0), splitter=SPLITTER
            )
            self.bench.commit()

    def tag(self) -> None:
        if (name := self.some("active", "archived")) is not None:
            tag = self.rng.choice(["a", "a:b", "c"])
            (self.bench.tag if self.rng.random() < 0.7 else self.bench.untag)(name, tag)

    def forget(self) -> None:
        if (name := self.some("active", "archived")) is not None:
            self.bench.forget(name)
            self.known[name].status = "forgotten"

    def undo(self) -> None:
        if (name := self.some("forgotten")) is not None:
            self.bench.undo(name)
            self.known[name].status = "active"

    def archive(self) -> None:
        if (name := self.some("active")) is not None:
            self.bench.archive(name)
            self.known[name].status = "archived"
            self.bench.unarchive(name)
            self.known[name].status = "active"

    def erase(self) -> None:
        if (name := self.some("active", "forgotten")) is not None:
            self.bench.erase(name)
            del self.known[name]

    def purge(self) -> None:
        self.bench.purge(2**62)
        self.known = {n: held for n, held in self.known.items() if held.status != "forgotten"}

    def follow(self) -> None:
        self.bench.follow(embed=self.rng.random() < 0.7)

    def publish(self) -> None:
        """Half of the time beside other operations."""
        self.bench.follow()
        publication = self.bench.stored.begin()
        publication.pause = lambda: None
        if self.rng.random() < 0.5:
            for does in self.rng.choices(
                [self.remember, self.forget, self.revise, self.erase, self.chunk], k=4
            ):
                does()
            self.bench.follow()
        publication.run()
        if self.rng.random() < 0.1:
            self.bench.stored.abandon(publication)
        else:
            self.bench.stored.finish(publication)

    def reopen(self) -> None:
        self.bench.stored.close()
        self.bench.region.seal()
        self.bench.region.close()
        self.bench.region = self.bench.open(derived=self.bench.derived)
        self.bench.stored = self.bench.open_derived()
        assert self.bench.stored.findings == []

    def crash(self) -> None:
        """What a killed process leaves: its files as they are at this moment."""
        killed = self.bench
        copy = self.directory.with_name(f"{self.directory.name}+")
        shutil.copytree(self.directory, copy)
        killed.stored.close()
        killed.region.close()
        remove_indexes(self.directory)
        copy.rename(self.directory)
        killed.region = killed.open(derived=killed.derived)
        killed.stored = killed.open_derived()
        assert killed.stored.findings == []

    # ---- looking ---------------------------------------------------------------------------------

    def check(self, sample: int) -> None:
        bench = self.bench
        view = bench.follow()
        assert list(bench.region.verify()) == []
        living = {
            bench.region.row(name): held.text
            for name, held in self.known.items()
            if held.status != "forgotten"
        }
        parts = self.living_chunks(living)
        assert view.text.ids().tolist() == sorted([*living, *parts])
        assert view.vectors is not None and view.waiting == 0
        rows = rows_of_vectors(view.vectors.ids()).tolist()
        assert rows == sorted([*living, *parts, *parts]), "a chunk has one for its title, too"
        titled = {
            bench.region.view(row).text for row in view.rows.originals(np.array(parts, np.int64))
        }
        assert set(bench.words("title", limit=10_000)) == titled
        for name, held in self.rng.sample(sorted(self.known.items(), key=lambda k: k[0]),
                                          min(sample, len(self.known))):  # fmt: skip
            first = held.text.split()[0]
            expected = [] if held.status == "forgotten" else [held.text]
            assert bench.words(first, status=None) == expected
            near = bench.near(held.text, 1, status=None)
            assert near == expected or (not expected and near != [held.text])
            if held.status == "forgotten":
                with pytest.raises(NotFound):
                    bench.region.row(name)
            else:
                assert bench.region.view(bench.region.row(name)).text == held.text

    def living_chunks(self, rows: Iterable[int]) -> list[int]:
        table = self.bench.region.state.table
        parts = np.concatenate([table.children(row) for row in rows] or [np.empty(0, np.int64)])
        found: list[int] = parts[table.column("status")[parts] < Status.FORGOTTEN].tolist()
        return found

    def close(self) -> None:
        self.bench.stored.close()
        self.bench.region.close()


@pytest.mark.timeout(7200)
def test_indexes_hold_what_lives_through_anything(
    tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    operations, every = (50_000, 1_000) if request.config.getoption("--long") else (400, 100)
    machine = Machine(tmp_path / "store", rng)
    try:
        for number in range(1, operations + 1):
            machine.step()
            if number % every == 0:
                machine.check(sample=30)
    finally:
        machine.close()
