"""Things of the long-term owner that happen at the same time, in the order that once did harm."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors import longterm_searching
from neverforget.actors.index_folders import IndexFolders
from neverforget.actors.messages import SYNC_PROCESS, Failure, Verify, VerifyReply
from neverforget.actors.open_indexes import OpenIndexes
from neverforget.actors.query_vectors import QueryVectors
from neverforget.actors.recall_answers import Hits
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.storage import manifest
from neverforget.storage.embedder_file import EmbedderFile
from neverforget.storage.manifest import Examined, examine
from neverforget.storage.results import Finding
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import PATIENCE_S, OwnedLongTerm
from tests.actors.test_longterm_reindex import ask, folders
from tests.fakes.embedders import Hanging, Plain
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.storage.bytes_left import left_of


class Opening:
    """Opens folders, and stops when one is open until ``go_on`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.go_on = threading.Event(), threading.Event()
        self.error: Exception | None = None
        real = IndexFolders.open

        def open_and_stop(
            folders: IndexFolders, held: EmbedderFile, embedder: StoreEmbedder, *rest: Any
        ) -> OpenIndexes:
            indexes = real(folders, held, embedder, *rest)
            self.opened.set()
            assert self.go_on.wait(PATIENCE_S)
            if self.error is not None:
                indexes.close(orderly=False)
                raise self.error
            return indexes

        monkeypatch.setattr(IndexFolders, "open", open_and_stop)


@pytest.fixture
def reindexed(owning: Owning) -> tuple[OwnedLongTerm, str]:
    """An owner with two embedders, and the id of a memory."""
    owned = owning({"test": Plain(16), "other": Plain(8)})
    secret, _ = owned.remember("unmistakable xylophone", "tea")
    owned.settle()
    return owned, secret


def test_an_erasure_waits_for_a_second_folder_that_is_being_opened(
    reindexed: tuple[OwnedLongTerm, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words were written there already, and the erasure was answered: only the indexes that
    were open were asked.
    """
    owned, secret = reindexed
    opening = Opening(monkeypatch)
    ask(owned, "other", begin=True)
    owned.until(opening.opened.is_set)
    (asked,) = owned.start(owned.erase(secret))
    indexing = owned.owner.indexing
    assert indexing is not None
    owned.until(lambda: not len(owned.owner.deletions))
    owned.until(lambda: not (indexing.index is None or indexing.index.erased))
    owned.pass_time(1.0)
    assert asked.replies == []
    assert {place.split("/")[0] for place in left_of(owned.directory, "xylophone")} == {"derived-2"}
    opening.go_on.set()
    owned.until(lambda: bool(asked.replies))
    assert left_of(owned.directory, "xylophone") == []
    owned.until(lambda: ask(owned, "other").state == "done")


def test_the_folder_of_a_reindexing_that_failed_is_removed(
    reindexed: tuple[OwnedLongTerm, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept the words of what was erased, and its room, until the store was opened again."""
    owned, secret = reindexed
    opening = Opening(monkeypatch)
    opening.error = OSError(28, "no space left on device")
    opening.go_on.set()
    ask(owned, "other", begin=True)
    owned.until(lambda: ask(owned, "other").state == "failed")
    owned.ask(owned.erase(secret), m.MemoriesErasedReply)
    assert folders(owned) == ["derived-1"]
    assert left_of(owned.directory, "xylophone") == []


def test_indexes_that_open_when_nobody_wants_them_are_closed(
    reindexed: tuple[OwnedLongTerm, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that ended meanwhile left them open, and their folder locked."""
    owned, _ = reindexed
    opening = Opening(monkeypatch)
    ask(owned, "other", begin=True)
    owned.until(opening.opened.is_set)
    closed = threading.Event()
    real = OpenIndexes.close

    def close(indexes: OpenIndexes, *, orderly: bool) -> None:
        real(indexes, orderly=orderly)
        if indexes.stored.directory.name == "derived-2":
            closed.set()

    monkeypatch.setattr(OpenIndexes, "close", close)
    owned.owner.close()
    opening.go_on.set()
    assert closed.wait(PATIENCE_S)


def test_a_vector_that_comes_at_once_is_not_lost(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that had asked for it wrote None over it when it was there already: found by
    words only, though the embedder was well.
    """
    owned = owning()
    owned.remember("tea")
    owned.settle()
    recalls = owned.owner._recalls
    searching = threading.Event()
    real = QueryVectors.ask

    def ask_and_see_it_used(vectors: QueryVectors, *asked: Any) -> None:
        real(vectors, *asked)
        assert searching.wait(PATIENCE_S)

    def after_the_other(*asked: Any) -> Hits:
        searching.set()
        with recalls._idle:
            assert recalls._idle.wait_for(lambda: recalls._running == 1, PATIENCE_S)
        return Hits(*asked)

    monkeypatch.setattr(QueryVectors, "ask", ask_and_see_it_used)
    monkeypatch.setattr(longterm_searching, "Hits", after_the_other)
    reply = owned.recall("tea")
    assert (reply.complete, reply.reason) == (True, None)


def test_a_recall_whose_vector_comes_after_the_end_is_answered(owning: Owning) -> None:
    """It was with nobody any more: neither with the embedder nor with those who are told."""
    slow = Hanging()
    owned = owning(slow)
    slow.release.set()
    owned.remember("tea")
    owned.settle()
    slow.release.clear()
    slow.entered.clear()
    recalls = owned.owner._recalls
    try:
        (asked,) = owned.start(owned.recall_request("something else", wait_ms=60_000))
        owned.until(slow.entered.is_set)
        recalls._threads.close(0.0)
    finally:
        slow.release.set()
    owned.until(lambda: bool(asked.replies))
    assert asked.code == "unavailable"


def test_a_file_that_is_replaced_under_the_look_at_it_is_not_damaged(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of the text index takes files away while ``verify`` sums them."""
    looks: list[Examined] = []

    def examine_and_see(*asked: Any, **how: Any) -> Examined:
        found = examine(*asked, **how)
        looks.append(found)
        if len(looks) == 1:
            missing = Finding("bad_derived_file", "repaired", "text-1", 0, 0, "1.fast is missing")
            return replace(found, findings=(missing,))
        return found

    monkeypatch.setattr(manifest, "examine", examine_and_see)
    longterm.remember("tea")
    assert longterm.ask(Verify(1), VerifyReply).findings == []
    assert len(looks) == 2


def test_nothing_of_a_lost_region_is_looked_at(owning: Owning) -> None:
    """What was to be told to its indexes was told when it was closed already."""
    fs = FailingFileSystem()
    owned = owning(fs=fs)
    owned.remember("promised")
    owned.settle()
    indexing = owned.owner.indexing
    assert indexing is not None and indexing.index is not None
    upto = indexing.index.upto
    once = iter([True])  # the recovery, which begins at once, finds the disk mended
    fs.fails = lambda op, path: op == "sync" and path.suffix == ".seg" and next(once, False)
    owned.start(owned.remember_request("in the file", sync=SYNC_PROCESS))
    owned.start(owned.remember_request("in doubt"))
    assert next(once, False) is False
    owned.clock.now += 0.1
    owned.owner._pass_time(owned.clock.now)
    assert indexing.index.upto == upto
    owned.until(lambda: owned.status().state == "serving" and owned.status().index is not None)
    assert "promised" in owned.found("promised in doubt")


def test_an_erasure_tells_of_a_second_folder_that_cannot_be_stored(owning: Owning) -> None:
    """It waited for as long as the disk was full: only the first folder's errors were asked for."""
    fs, slow = FailingFileSystem(), Hanging()
    owned = owning({"test": Plain(16), "slow": slow}, fs=fs)
    secret, _ = owned.remember("unmistakable xylophone", "tea")
    owned.settle()
    fs.full = True
    try:
        ask(owned, "slow", begin=True)
        owned.until(slow.entered.is_set)
        fs.fails = lambda op, path: "derived-2" in path.parts
        erased = owned.ask(owned.erase(secret), m.MemoriesErasedReply)
        assert "no room" in erased.result.unreachable[-1]
        reason = ask(owned, "slow").reason
        assert reason is not None and "no room" in reason
    finally:
        fs.mend()
        slow.release.set()


class Panic(BaseException):
    """What a library in Rust raises when it panics: no Exception."""


def test_a_panic_in_a_search_is_an_answer_and_costs_no_thread(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the text index were overwritten under an open store: tantivy panicked, the search
    thread was gone, and the caller heard nothing until its deadline.
    """
    longterm.remember("tea")
    longterm.settle()

    def panic(*asked: Any) -> Any:
        raise Panic("failed to read block content")

    with monkeypatch.context() as patched:
        patched.setattr(longterm_searching, "Hits", panic)
        for _ in range(longterm_searching.SEARCH_THREADS + 1):
            failed = longterm.ask(longterm.recall_request("tea"), Failure)
            assert "internal error: Panic" in failed.message
    assert longterm.recall("tea").complete


@pytest.mark.parametrize("where", ["step", "deadlines"])
def test_a_panic_of_the_indexer_is_stumbled_over(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Else the indexer's thread is gone, and nothing that is written is found any more."""
    panicked = threading.Event()

    def panic(*asked: Any) -> Any:
        panicked.set()
        raise Panic("called `Result::unwrap()` on an `Err` value")

    longterm.remember("tea")
    longterm.settle()
    indexing = longterm.owner.indexing
    assert indexing is not None
    with monkeypatch.context() as patched:
        patched.setattr(OpenIndexes, where, panic)
        longterm.remember("coffee")
        indexing.look()
        longterm.until(panicked.is_set)
        longterm.until(lambda: indexing.index is None)
    longterm.pass_time(60)
    longterm.until(lambda: indexing.index is not None)
    assert longterm.found("coffee")[0] == "coffee"
