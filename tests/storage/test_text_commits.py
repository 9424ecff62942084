"""What a commit of words costs those who go on meanwhile, and what it takes along."""

from __future__ import annotations

import errno
import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage import text_disk, text_index
from neverforget.storage.errors import OutOfSpace
from neverforget.storage.text_index import HiddenIds, TextDocument, TextIndex
from tests.storage.test_text_index import FS, found, text_of


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TextIndex]:
    one = TextIndex.create(FS, tmp_path / "text")
    yield one
    one.close()


def test_a_commit_analyses_nothing_again_and_copies_nothing(
    index: TextIndex, monkeypatch: Any
) -> None:
    """What had come while a commit was written was analysed again at its end: 250 ms for a tenth of
    a backlog of 30,000, in which the owner of the region got the interpreter now and then.
    """
    index.add(TextDocument(n, "alpha beta", "gamma") for n in range(20))
    commit = index.begin_commit(1)
    index.add(TextDocument(n, "alpha") for n in range(15, 40))
    kept = index._overlay._layers[1:]
    monkeypatch.setattr(index, "_analyze", None)
    commit.run()
    index.finish_commit(commit)
    assert index._overlay._layers == kept and len(index._overlay) == 25
    monkeypatch.undo()
    assert sorted(found(index, "alpha")) == list(range(40))
    assert sorted(found(index, "beta")) == list(range(15))


def test_what_snapshots_read_is_changed_under_the_guard(index: TextIndex, monkeypatch: Any) -> None:
    """A commit that began beside a snapshot sorted the removed ids with it: one of both could join
    an empty list to them, and made them floats.
    """
    index.add(TextDocument(n, "alpha") for n in range(9))
    index.commit(1)
    index.remove([3])
    guarded = list[bool]()
    sort = HiddenIds.sorted

    def watched(hidden: HiddenIds) -> Any:
        guarded.append(index._guard.locked())
        return sort(hidden)

    monkeypatch.setattr(HiddenIds, "sorted", watched)
    index.commit(2)
    assert sorted(found(index, "alpha")) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert guarded and all(guarded)


def test_a_commit_pauses_between_slices_of_bounded_size(index: TextIndex, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_index, "PAUSE_DOCUMENTS", 4)
    written, pauses = list[int](), list[int]()
    index.add(TextDocument(n, "alpha") for n in range(10))
    commit = index.begin_commit(1)

    def write(documents: Any, *_: Any) -> Any:
        for document in documents:
            written.append(document.id)
        return index._disk.state

    monkeypatch.setattr(index._disk, "write", write)
    commit.run(lambda: pauses.append(len(written)))
    assert pauses == [0, 4, 8] and written == list(range(10))


def test_what_is_in_memory_costs_the_collector_nothing(
    index: TextIndex, rng: random.Random
) -> None:
    """A list a word, with a tuple a posting, made a full collection take 500 ms for 30,000
    memories, and no thread runs beside it.
    """
    documents = [TextDocument(n, f"{text_of(rng, 50)} only{n}", "beta") for n in range(500)]
    gc.collect()
    before = len(gc.get_objects())
    index.add(documents)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_commits_that_fail_leave_layers_that_score_as_one(
    index: TextIndex, tmp_path: Path, rng: random.Random
) -> None:
    documents = [TextDocument(n, text_of(rng, 20), text_of(rng, 5)) for n in range(300)]
    whole = TextIndex.create(FS, tmp_path / "whole")
    whole.add([*documents, *documents[::7]])
    for start in range(0, 300, 100):
        index.add(documents[start : start + 100])
        index.abandon_commit(index.begin_commit(start))
    index.add(documents[::7])
    for field in ("text", "context"):
        query = text_of(rng, 3)
        one, other = (each.snapshot().search(query, 300, field=field) for each in (index, whole))
        assert one.ids.tolist() == other.ids.tolist()
        assert one.scores.tolist() == other.scores.tolist()
    index.commit(300)
    assert index.snapshot().ids().tolist() == list(range(300)) and not len(index._overlay)
    whole.close()


def test_a_document_that_a_commit_brought_before_it_failed_can_be_removed(
    index: TextIndex, monkeypatch: Any
) -> None:
    """tantivy had committed, STATE could not be written. What was removed before the next commit
    was in memory alone, as far as anyone knew, and came back with it.
    """
    index.add([TextDocument(1, "alpha")])

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(text_disk, "sum_files", full)
    with pytest.raises(OutOfSpace):
        index.commit(1)
    monkeypatch.undo()
    index.remove([1])
    index.add([TextDocument(2, "alpha")])
    index.commit(2)
    assert found(index, "alpha") == [2]
