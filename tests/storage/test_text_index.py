"""The text index against a model that counts words, and against everything a query may hold."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from neverforget.storage import text_disk, text_index
from neverforget.storage.errors import (
    Corrupt,
    NotFound,
    OutOfSpace,
    Poisoned,
    StoreLocked,
    Unavailable,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.text_index import CONTEXT, TextDocument, TextIndex
from neverforget.storage.text_overlay import coarse_length
from neverforget.storage.text_state import TextState, read_state, write_state

FS = LocalFileSystem()
JAPANESE = "私はPythonでADKを使っています"
WORDS = [f"word{n}" for n in range(60)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TextIndex]:
    one = TextIndex.create(FS, tmp_path / "text")
    yield one
    one.close()


def found(index: TextIndex, query: str, limit: int = 100, **filters: Any) -> list[int]:
    ids: list[int] = index.snapshot().search(query, limit, **filters).ids.tolist()
    return ids


def reopened(index: TextIndex) -> TextIndex:
    index.close()
    return TextIndex.open(FS, index._disk.directory)


@pytest.fixture(params=["overlay", "disk", "loaded"])
def filled(request: pytest.FixtureRequest, index: TextIndex) -> Any:
    """Puts documents where the parameter says; what is found must not depend on it."""

    def fill(*documents: TextDocument) -> TextIndex:
        if request.param == "loaded":
            index.load(documents, 1)
        else:
            index.add(documents)
            if request.param == "disk":
                index.commit(1)
        return index

    return fill


# ---- queries -------------------------------------------------------------------------------------


def test_japanese_is_found_by_its_parts(filled: Any) -> None:
    """Field report 27."""
    index = filled(TextDocument(1, JAPANESE), TextDocument(2, "彼はRustを書いています"))
    for query in ("Python", "ADK", "使って", "使", "python adk", "ＡＤＫ"):
        assert found(index, query) == [1], query
    assert found(index, "ています")[0] in (1, 2) and len(found(index, "ています")) == 2


@pytest.mark.parametrize(
    "query",
    [
        *("C ++", '"', "AND", ":*", "", " ", "\0", "🎉🎉", "x\ud83dy", "text:alpha", "-alpha"),
        *(
            '"alpha beta',
            "alpha AND",
            "(((",
            "[a TO b]",
            "alpha~",
            "alpha^2",
            "*",
            "?",
            "/a/",
            "\\",
        ),
        *("id:1", "label:type", "+alpha -beta", "IN [1 2]", "a" * 10_000, "alpha " * 1_667),
        *(" ".join(f"w{n}" for n in range(2_000)), "の" * 10_000, "e\u0301" * 5_000, "\u202e" * 99),
    ],
)
def test_no_query_raises_or_acts_as_an_operator(filled: Any, query: str) -> None:
    """Field report 27. What such a query finds is what its words find."""
    index = filled(TextDocument(1, "alpha beta"), TextDocument(2, "beta gamma"))
    got = found(index, query)
    words = {"alpha": [1], "beta": [1, 2], "gamma": [2]}
    expected = {key for word, ids in words.items() if word in query for key in ids}
    assert set(got) == expected


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("She was running marathons", ["run", "marathon", "Running!"]),
        ("Café naïve Ångström", ["cafe", "CAFÉ", "naive", "angstrom"]),
        ("call getUserName in my_module.py", ["getUserName", "user name", "my_module", "module"]),
        ("I write C++ and C#", ["c++", "C#"]),
        ("party 🎉 tonight", ["🎉", "party"]),
        ("x\ud83dy", ["x", "y"]),
        ("한국어를 배웁니다", ["한국어", "국어"]),
        ("ฉันรักภาษาไทย", ["ภาษา"]),
        ("don't panic, O'Brien's here", ["panic", "o'brien"]),
    ],
)
def test_text_is_found_by_its_words(filled: Any, text: str, queries: list[str]) -> None:
    index = filled(TextDocument(7, text), TextDocument(8, "nothing of the kind"))
    for query in queries:
        assert found(index, query) == [7], query


def test_text_and_context_are_searched_apart_and_the_date_is_text(filled: Any) -> None:
    index = filled(
        TextDocument(1, "alpha", context="beta", date="Monday 8 May 2023"),
        TextDocument(2, "beta", context="alpha"),
    )
    assert found(index, "alpha") == [1]
    assert found(index, "alpha", field=CONTEXT) == [2]
    assert found(index, "8 May 2023") == [1]
    assert found(index, "may", field=CONTEXT) == []


def test_of_a_long_query_the_rarest_words_count(index: TextIndex) -> None:
    index.add(TextDocument(n, " ".join(f"common{i}" for i in range(100))) for n in range(20))
    index.add([TextDocument(99, "needle")])
    index.commit(1)
    query = " ".join([*(f"common{i}" for i in range(100)), "needle"])
    assert found(index, query)[0] == 99


# ---- scores --------------------------------------------------------------------------------------


def text_of(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, weights=range(1, 61), k=words))


def test_the_overlay_scores_as_tantivy_does(tmp_path: Path, rng: random.Random) -> None:
    """Two searches of one set of documents, in memory and on disk: the same hits, the same BM25."""
    documents = [
        TextDocument(n, text_of(rng, rng.randint(1, 300)), text_of(rng, rng.randint(0, 50)))
        for n in range(150)
    ]
    memory, disk = (TextIndex.create(FS, tmp_path / name) for name in ("memory", "disk"))
    memory.add(documents)
    disk.load(documents, 1)
    for _ in range(20):
        query = text_of(rng, 3)
        for field in ("text", "context"):
            one = memory.snapshot().search(query, 150, field=field)
            other = disk.snapshot().search(query, 150, field=field)
            assert sorted(one.ids.tolist()) == sorted(other.ids.tolist())
            scores = dict(zip(other.ids.tolist(), other.scores.tolist()))
            for key, score in zip(one.ids.tolist(), one.scores.tolist()):
                assert score == pytest.approx(scores[key], rel=1e-4)
    memory.close()
    disk.close()


def test_lengths_are_as_coarse_as_tantivys() -> None:
    kept = [n for n in range(200) if coarse_length(n) == n]
    assert kept[:41] == list(range(41))
    assert kept[41:50] == [42, 44, 46, 48, 50, 52, 54, 56, 60]
    assert coarse_length(1_000_000) == 24 + (15 << 16)


def test_filters_add_nothing_to_the_score(filled: Any) -> None:
    documents = [TextDocument(n, "alpha " * (n + 1) + "beta", labels=("a", "b")) for n in range(5)]
    index = filled(*documents)
    plain = index.snapshot().search("alpha", 10)
    for filters in ({"labels": ["a", ("b", "c")]}, {"allowed": range(5)}):
        hits = index.snapshot().search("alpha", 10, **filters)
        assert hits.ids.tolist() == plain.ids.tolist()
        assert hits.scores.tolist() == pytest.approx(plain.scores.tolist())


# ---- filters -------------------------------------------------------------------------------------


def test_labels_are_whole_and_alternatives_are_any_of_them(filled: Any) -> None:
    index = filled(
        TextDocument(1, "alpha", labels=("type:fact", "tag:ai", "tag:ai:llm")),
        TextDocument(2, "alpha", labels=("type:event", "tag:ai")),
        TextDocument(3, "alpha", labels=("type:fact", "x\ud83d")),
        TextDocument(4, "alpha type fact ai"),
    )
    assert set(found(index, "alpha")) == {1, 2, 3, 4}
    assert found(index, "alpha", labels=["tag:ai:llm"]) == [1]
    assert set(found(index, "alpha", labels=["tag:ai"])) == {1, 2}
    assert set(found(index, "alpha", labels=["type:fact"])) == {1, 3}
    assert set(found(index, "alpha", labels=[("type:fact", "type:event"), "tag:ai"])) == {1, 2}
    assert found(index, "alpha", labels=["x\ud83d"]) == [3]
    assert found(index, "alpha", labels=["type"]) == []


WAYS: dict[str, dict[str, float]] = {
    "all matches are taken": {"MATCHES_MAX": 10_000, "_TERM": 10**9, "_SET": 10**9},
    "each id is a term": {"MATCHES_MAX": 0, "_TERM": 0},
    "the ids are a set": {"MATCHES_MAX": 0, "_TERM": 10**9, "_SET": 0, "_IN_SET": 0},
    "deeper and deeper": {"MATCHES_MAX": 0, "_TERM": 10**9, "_SET": 10**9, "_MARGIN": 0.3},
}


@pytest.mark.parametrize("share", [1.0, 0.6, 0.2, 0.01])
@pytest.mark.parametrize("way", WAYS)
def test_a_filter_finds_all_it_leaves_whatever_its_size(
    index: TextIndex, rng: random.Random, share: float, way: str, monkeypatch: Any
) -> None:
    """The ways to find it differ in what they cost, and in nothing else."""
    for name, value in WAYS[way].items():
        monkeypatch.setattr(f"neverforget.storage.text_snapshot.{name}", value)
    first = 0 if way == "deeper and deeper" else -900
    documents = [TextDocument(n * 3 + first, text_of(rng, 20)) for n in range(1_000)]
    index.load(documents[:900], 1)
    index.add(documents[900:])
    index.remove([d.id for d in documents[::9]])
    left = {d.id for n, d in enumerate(documents) if n % 9}
    for _ in range(5):
        allowed = set(rng.sample([d.id for d in documents], int(share * 1_000)))
        query = text_of(rng, 2)
        everything = found(index, query, 2_000)
        expected = [key for key in everything if key in allowed]
        assert found(index, query, 2_000, allowed=list(allowed)) == expected
        assert found(index, query, 10, allowed=list(allowed)) == expected[:10]
        if first == 0:
            mask = np.zeros(2_500, bool)
            mask[[key for key in allowed if key < 2_500]] = True
            assert found(index, query, 10, allowed=mask) == [k for k in expected if k < 2_500][:10]
            middle = mask & (np.arange(2_500) >= 1_000) & (np.arange(2_500) < 1_400)
            inside = [key for key in expected if 1_000 <= key < 1_400]
            assert found(index, query, 10, allowed=middle) == inside[:10]
        assert set(everything) <= left
    assert found(index, "word59", allowed=[]) == []


# ---- changing ------------------------------------------------------------------------------------


def test_random_changes_agree_with_a_model(index: TextIndex, rng: random.Random) -> None:
    """Adds, replacements, removals, commits, commits under way, and reopening: ids and hits are
    always those of the model.
    """
    model: dict[int, str] = {}
    position = 0
    commit: Any = None
    for step in range(150):
        for _ in range(rng.randint(1, 6)):
            position += 1
            key = rng.randrange(60)
            if rng.random() < 0.7:
                model[key] = text_of(rng, 8)
                index.add([TextDocument(key, model[key])])
            else:
                model.pop(key, None)
                index.remove([key, 1_000 + key])
        action = rng.random()
        if commit is not None and action < 0.5:
            commit.run()
            index.finish_commit(commit)
            commit = None
        elif commit is None and action < 0.3:
            commit = index.begin_commit(position)
        elif commit is None and action < 0.4:
            index.commit(position)
            assert index.watermark == position
            index = reopened(index)
        if step % 5 == 0:
            assert index.snapshot().ids().tolist() == sorted(model)
            word = rng.choice(WORDS)
            expected = {key for key, text in model.items() if word in text.split()}
            assert set(found(index, word)) == expected
    if commit is not None:
        index.abandon_commit(commit)
    index.close()


def test_a_snapshot_stands_still(index: TextIndex) -> None:
    index.add(TextDocument(n, "alpha beta") for n in range(5))
    index.commit(1)
    index.add([TextDocument(5, "alpha")])
    before = index.snapshot()
    ids, hits = before.ids().tolist(), before.search("alpha", 10)
    index.remove([0, 5])
    index.add([TextDocument(1, "gamma"), TextDocument(9, "alpha")])
    for watermark in (2, 3, 4):
        index.commit(watermark)
    again = before.search("alpha", 10)
    assert (before.ids().tolist(), again.ids.tolist()) == (ids, hits.ids.tolist())
    assert again.scores.tolist() == hits.scores.tolist()
    assert sorted(found(index, "alpha")) == [2, 3, 4, 9]


def test_readers_and_one_writer_at_once(index: TextIndex) -> None:
    stop, wrong = threading.Event(), list[str]()

    def read() -> None:
        while not stop.is_set():
            snapshot = index.snapshot()
            ids = snapshot.ids().tolist()
            hits = sorted(snapshot.search("alpha", 10_000).ids.tolist())
            if ids != hits or len(ids) % 10:
                wrong.append(f"{len(ids)} there, {len(hits)} found")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for at in range(0, 600, 10):
            index.add(TextDocument(n, f"alpha {n}") for n in range(at, at + 10))
            if at % 50 == 40:
                index.remove(range(at - 40, at - 30))
            if at % 150 == 140:
                index.commit(at)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong


def test_a_snapshot_taken_while_a_commit_ends_counts_nothing_twice(
    index: TextIndex, monkeypatch: Any
) -> None:
    """It had the numbers of the new disk, and beside them what had just gone there."""
    index.add(TextDocument(key, "alpha " + "beta " * key) for key in range(1, 9))
    before = index.snapshot().search("alpha", 10)
    commit = index.begin_commit(7)
    commit.run()
    searcher, meanwhile = index._disk.searcher, []

    def look() -> Any:
        index.remove([])  # another snapshot, please
        meanwhile.append(index.snapshot().search("alpha", 10))
        return searcher()

    monkeypatch.setattr(index._disk, "searcher", look)
    index.finish_commit(commit)
    (found,) = meanwhile
    assert found.ids.tolist() == before.ids.tolist()
    assert found.scores.tolist() == before.scores.tolist()


def test_a_commit_becomes_due(index: TextIndex, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_index, "COMMIT_DOCUMENTS", 3)
    monkeypatch.setattr(text_index, "COMMIT_WORDS", 50)
    index.add([TextDocument(1, "a"), TextDocument(2, "b")])
    assert not index.commit_due()
    index.add([TextDocument(1, "again")])  # the row it replaces still takes room
    assert index.commit_due()
    index.commit(1)
    assert not index.commit_due()
    index.add([TextDocument(4, "x " * 60)])
    assert index.commit_due()


def test_what_is_not_committed_is_not_on_disk_and_the_watermark_says_so(index: TextIndex) -> None:
    index.add([TextDocument(1, "alpha")])
    index.commit(100)
    index.add([TextDocument(2, "alpha")])
    again = reopened(index)
    assert (again.watermark, found(again, "alpha")) == (100, [1])
    again.add([TextDocument(1, "alpha"), TextDocument(2, "alpha")])  # the log from 100 or before
    again.commit(200)
    assert sorted(found(again, "alpha")) == [1, 2]
    again.close()


# ---- the directory -------------------------------------------------------------------------------


def test_one_writer(index: TextIndex) -> None:
    for attempt in (TextIndex.open, TextIndex.create):
        with pytest.raises(StoreLocked):
            attempt(FS, index._disk.directory)
    index.close()
    TextIndex.open(FS, index._disk.directory).close()


def test_a_lock_of_tantivys_that_a_child_still_holds_is_no_hindrance(index: TextIndex) -> None:
    """A forked child keeps tantivy's lock open. Ours is the one that counts."""
    lock = index._disk.directory / ".tantivy-writer.lock"
    script = f"import fcntl; f = open({str(lock)!r}, 'w'); fcntl.flock(f, 2); print(1, flush=True)"
    script += "; input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        index.add([TextDocument(1, "alpha")])
        index.commit(1)
        child.stdin.close()
    assert found(index, "alpha") == [1]


def test_another_version_is_rebuilt(index: TextIndex, monkeypatch: Any) -> None:
    directory = index._disk.directory
    index.close()
    monkeypatch.setattr(text_disk, "ENGINE", "tantivy v9.9.9")
    with pytest.raises(UnsupportedFormat, match="rebuilt"):
        TextIndex.open(FS, directory)
    monkeypatch.undo()
    monkeypatch.setattr(text_disk, "ANALYSIS_VERSION", 99)
    with pytest.raises(UnsupportedFormat, match="analysis 99"):
        TextIndex.open(FS, directory)
    monkeypatch.undo()
    before = index.incarnation
    again = TextIndex.create(FS, directory, watermark=5)
    assert again.watermark == 5 and again.incarnation != before
    again.close()


def test_what_is_not_there_is_rebuilt(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        TextIndex.open(FS, tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound):
        TextIndex.open(FS, tmp_path / "empty")


def test_a_commit_killed_before_its_end_is_done_again(index: TextIndex, rng: random.Random) -> None:
    """STATE says "committing": from the watermark before it everything is added again, whether
    tantivy had got there or not.
    """
    index.add(TextDocument(n, text_of(rng, 5)) for n in range(50))
    index.commit(100)
    directory = index._disk.directory
    committed = read_state(FS, directory)
    index.add(TextDocument(n, "alpha") for n in range(40, 60))
    index.commit(200)
    index.close()
    # As a kill between tantivy's commit and ours leaves it.
    write_state(FS, directory, _committing(committed))
    (directory / ".tmpLeft").write_bytes(b"half of a meta.json")
    (directory / "0123456789abcdef0123456789abcdef.store").write_bytes(b"half of a segment")
    again = TextIndex.open(FS, directory)
    assert again.watermark == 100 and not (directory / ".tmpLeft").exists()
    again.add(TextDocument(n, "alpha") for n in range(40, 60))
    again.commit(200)
    assert sorted(found(again, "alpha")) == list(range(40, 60))
    assert again.snapshot().ids().tolist() == list(range(60))
    again.close()


def _committing(state: TextState) -> TextState:
    return msgspec.structs.replace(state, phase="committing")


def test_damage_in_a_commit_that_was_killed_is_found_by_tantivys_own_sums(
    index: TextIndex, rng: random.Random
) -> None:
    index.add(TextDocument(n, text_of(rng, 5)) for n in range(50))
    index.commit(1)
    directory = index._disk.directory
    index.close()
    write_state(FS, directory, _committing(read_state(FS, directory)))
    for path in sorted(directory.glob("*.idx")):
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[: len(whole) // 2], b"", _flipped(whole, 3)):
            path.write_bytes(damaged)
            with pytest.raises(Corrupt):
                TextIndex.open(FS, directory)
        path.unlink()
        with pytest.raises(Corrupt, match="missing"):
            TextIndex.open(FS, directory)
        path.write_bytes(whole)
    TextIndex.open(FS, directory).close()


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


class Writer:
    """tantivy's writer on a disk that is full, or fails."""

    def __init__(self, number: int) -> None:
        self._number = number

    def delete_documents_by_term(self, *_: Any) -> None: ...

    def add_document(self, _: Any) -> None:
        raise ValueError(f"An IO error occurred: 'message (os error {self._number})'")


def test_a_full_disk_loses_nothing_and_the_next_commit_brings_it(
    index: TextIndex, monkeypatch: Any
) -> None:
    index.add([TextDocument(1, "alpha")])
    index.commit(1)
    index.add([TextDocument(2, "alpha")])
    index.remove([1])
    monkeypatch.setattr(index._disk, "_writer", lambda _: Writer(28))
    for _ in range(3):
        with pytest.raises(OutOfSpace):
            index.commit(2)
        assert found(index, "alpha") == [2]
    monkeypatch.undo()
    index.commit(3)
    again = reopened(index)
    assert (found(again, "alpha"), again.watermark) == ([2], 3)
    again.close()


def test_after_any_other_failure_the_directory_takes_no_more(
    index: TextIndex, monkeypatch: Any
) -> None:
    """Of a failed sync nobody knows what reached the disk: it is not tried again on top of it."""
    index.add([TextDocument(1, "alpha")])
    monkeypatch.setattr(index._disk, "_writer", lambda _: Writer(5))
    with pytest.raises(Poisoned):
        index.commit(1)
    monkeypatch.undo()
    with pytest.raises(Poisoned, match="failed before"):
        index.commit(1)
    assert found(index, "alpha") == [1]


def test_who_ends_the_documents_is_told_so_and_the_directory_takes_no_more(
    index: TextIndex,
) -> None:
    """The end of an owner is an OSError as well: it passed for a disk that has failed."""

    def documents() -> Iterator[TextDocument]:
        yield TextDocument(1, "alpha")
        raise Unavailable("the owner ends", outcome="not_applied")

    with pytest.raises(Unavailable, match="the owner ends"):
        index.load(documents(), 1)
    with pytest.raises(Poisoned, match="failed before"):
        index.load([TextDocument(1, "alpha")], 1)


def test_ids_are_any_int64(filled: Any) -> None:
    ids = [0, -1, 2**63 - 1, -(2**63), 12_345]
    index = filled(*(TextDocument(key, "alpha") for key in ids))
    assert index.snapshot().ids().tolist() == sorted(ids)
    assert found(index, "alpha", allowed=[2**63 - 1, -1]) == [-1, 2**63 - 1]
    assert np.array_equal(index.snapshot().search("alpha", 9).ids, np.array(sorted(ids)))
