"""neverforget.testing: what users' own tests build on."""

from __future__ import annotations

from pathlib import Path

import neverforget as nf
from neverforget.testing import store as make_store


class StoppedClock:
    def now_us(self) -> int:
        return 1_700_000_000_000_000

    def monotonic(self) -> float:
        return 0.0


def test_the_fixture_is_there_without_an_import(nf_store: nf.Store) -> None:
    assert nf_store.session("chat").append("user", "hello").seq == 0
    made = nf_store.remember("Ada lives in Oslo")
    assert nf_store.recall("Oslo", strategy="vector")[0].memory == made
    assert nf_store.status().longterm.model == "hash-64"


def test_a_store_for_tests_is_small_and_lasts(tmp_path: Path) -> None:
    with make_store(tmp_path / "s") as store:
        store.session("chat").append("user", "hello")
        assert store.config.partitions == 1
    size = sum(file.stat().st_size for file in (tmp_path / "s").rglob("*") if file.is_file())
    assert size < 256 * 1024
    with make_store(tmp_path / "s") as store:
        assert store.session("chat")[0].content == "hello"


def test_a_clock_of_ones_own_stamps_turns(tmp_path: Path) -> None:
    with make_store(tmp_path / "s", clock=StoppedClock()) as store:
        first = store.session("chat").append("user", "a")
        assert first.timestamp.timestamp() == 1_700_000_000
