"""Opening what is derived can be given up while it is made anew, and leaves nothing held."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage import longterm_generations
from tests.fakes.removing import remove_indexes
from tests.storage.small_index import indexed
from tests.storage.test_vector_training import GivenUp, giving_up_after


@pytest.mark.parametrize("state", ["lost", "behind", "far behind"])
def test_an_opening_that_is_given_up_leaves_no_lock_and_no_reader(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes, where a million memories are indexed anew: whoever closed had to wait, and then the
    next one found the folder locked.
    """
    monkeypatch.setattr(longterm_generations, "COMMIT_DOCUMENTS", 5)
    with indexed(tmp_path) as bench:
        for n in range(10):
            bench.remember(f"memory {n}")
        gone = bench.remember("forgotten")
        bench.forget(gone.id)
        bench.follow()
        bench.stored.publish()
        for n in range(3 if state == "behind" else 10):
            bench.remember(f"later {n}")
        bench.region.sync()
        bench.stored.close()
        if state == "lost":
            remove_indexes(bench.derived)
        log_bodies = bench.region.state.bodies
        given_up = 0
        while True:
            try:
                bench.stored = bench.open_derived(go_on=giving_up_after(given_up))
                break
            except GivenUp:
                assert bench.region.state.bodies is log_bodies
                given_up += 1
        assert given_up >= 4
        assert bench.stored.findings == []
        bench.follow()
        assert len(bench.words("memory")) == 10 and bench.words("forgotten") == []
        assert len(bench.words("later")) == (3 if state == "behind" else 10)
