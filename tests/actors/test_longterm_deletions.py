"""Deletions of many memories at the owner: everybody else is served between their slices."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm_messages import packed
from neverforget.actors.messages import AnyRequest, Failure
from neverforget.storage import longterm_erasure_plan, longterm_folding, longterm_matching
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.vector_index import VectorBase
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import PRODUCER, OwnedLongTerm
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.storage.bytes_left import left_of

NEVER = 2**62


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longterm_erasure_plan, "_SLICE", 1)
    monkeypatch.setattr(longterm_matching, "SLICE", 1)


@pytest.fixture
def owned(owning: Owning) -> OwnedLongTerm:
    """Ten memories of team a, and as many others."""
    opened = owning("none")
    for team, word in (("a", "unmistakable"), ("b", "ordinary")):
        texts = [f"{word} {n}" for n in range(10)]
        opened.remember(*texts, namespace=(team,), metadata={"team": team})
    return opened


def head(owned: OwnedLongTerm) -> tuple[int, tuple[str, ...], str, int, int]:
    number = owned.next_id()
    return number, (), "tester", PRODUCER, number


def forget_where(owned: OwnedLongTerm, **wanted: Any) -> m.ForgetWhere:
    return m.ForgetWhere(
        *head(owned), "forget", packed(MemoryFilter(**wanted)), False, "confirmed", None
    )


def purge(owned: OwnedLongTerm) -> m.Purge:
    return m.Purge(*head(owned), NEVER, False, "confirmed", None)


def erase_where(owned: OwnedLongTerm, *namespace: str) -> m.EraseMemoriesWhere:
    return m.EraseMemoriesWhere(*head(owned), namespace, False, "confirmed", None)


def deletion(owned: OwnedLongTerm, how: str) -> AnyRequest:
    """Of the ten memories of team a."""
    if how == "forget_where":
        return forget_where(owned, where={"metadata.team": "a"})
    if how == "erase_where":
        return erase_where(owned, "a")
    owned.ask(forget_where(owned, namespace=("a",)), m.ForgottenReply)
    return purge(owned)


@pytest.mark.parametrize("how", ["forget_where", "purge", "erase_where"])
def test_others_are_answered_between_the_slices_of_a_deletion(
    owned: OwnedLongTerm, how: str
) -> None:
    """A purge of 100,000 kept every append and recall waiting for nine seconds."""
    (asked,) = owned.start(deletion(owned, how))
    turns = 0
    while len(owned.owner.deletions):
        texts = [f"beside {turns}"]
        (remembered,) = owned.start(owned.remember_request(*texts, namespace=("b",)))
        assert isinstance(remembered.answer, m.MemoriesReply), "at once"
        (counted,) = owned.start(m.Memories(1, packed(MemoryFilter()), None, None, False, 100))
        assert isinstance(counted.answer, m.MemoryPageReply)
        assert owned.owner.deadline() == 0.0, "it goes on without being asked"
        owned.tick()
        turns += 1
    assert turns > 10
    owned.until(lambda: bool(asked.replies))
    if how == "erase_where":
        assert isinstance(asked.answer, m.MemoriesErasedReply)
        assert asked.answer.result.memories == 10
    else:
        assert isinstance(asked.answer, m.ForgottenReply) and asked.answer.count == 10
    status = owned.status().region
    assert status is not None and status.memories == 10 + turns
    if how != "forget_where":
        assert left_of(owned.directory, "unmistakable") == []


def test_what_is_on_record_is_found_by_no_recall_though_its_bytes_are_still_there(
    owned: OwnedLongTerm,
) -> None:
    owned.settle()
    (asked,) = owned.start(erase_where(owned, "a"))
    region = owned.owner._life.region
    assert region is not None
    while not region.state.unfinished:
        owned.tick()
    assert b"unmistakable 3" in b"".join(p.read_bytes() for p in owned.directory.rglob("*.seg"))
    (recalled,) = owned.start(owned.recall_request("unmistakable", strategy="text", after=0))
    assert region.state.unfinished and not asked.replies
    owned.until(lambda: bool(recalled.replies))
    assert isinstance(recalled.answer, m.RecallReply)
    assert b"unmistakable" not in recalled.answer.hits
    owned.until(lambda: bool(asked.replies))
    assert left_of(owned.directory, "unmistakable") == []


def test_deletions_go_one_after_the_other_and_a_repeat_waits_for_the_first(
    owned: OwnedLongTerm,
) -> None:
    """It is answered from the record, and that is there before the bytes are gone."""
    request = erase_where(owned, "a")
    first, again, other = owned.start(request, request, erase_where(owned, "b"))
    owned.until(lambda: bool(again.replies))
    assert first.replies and first.answer == again.answer
    assert left_of(owned.directory, "unmistakable") == []
    owned.until(lambda: bool(other.replies))
    status = owned.status().region
    assert status is not None and status.memories == 0


def test_who_asks_for_an_erasure_of_an_owner_that_ends_is_told(owned: OwnedLongTerm) -> None:
    under_way, waits = owned.start(erase_where(owned, "a"), erase_where(owned, "b"))
    owned.tick()
    owned.owner.close()
    for asked in (under_way, waits):
        assert isinstance(asked.answer, Failure)
        assert asked.answer.code == "unavailable"


def test_the_disk_fails_in_the_middle_of_an_erasure_and_the_next_opening_completes_it(
    owning: Owning,
) -> None:
    fs = FailingFileSystem()
    owned = owning("none", fs=fs)
    owned.remember(*[f"unmistakable {n}" for n in range(5)], namespace=("a",))
    request = erase_where(owned, "a")
    (asked, waits) = owned.start(request, erase_where(owned, "b"))
    region = owned.owner._life.region
    assert region is not None
    while not region.state.unfinished:
        owned.tick()
    failed: list[Path] = []

    def once(op: str, path: Path) -> bool:  # or the opening after it meets the failure, too
        if op != "sync" or failed:
            return False
        failed.append(path)
        return True

    fs.fails = once
    while not asked.replies:
        owned.tick()
    assert isinstance(asked.answer, Failure) and asked.answer.code == "poisoned"
    owned.until(lambda: bool(waits.replies))
    assert isinstance(waits.answer, m.MemoriesErasedReply), "nobody had begun with it"
    again = owned.ask(request, m.MemoriesErasedReply)
    assert again.result.memories == 5
    assert left_of(owned.directory, "unmistakable") == []


# ---- what an erasure need not wait for -----------------------------------------------------------


def test_an_erasure_gives_up_vectors_that_are_being_made(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold what it takes, so they are of no use; it waited until they were made."""
    monkeypatch.setattr(longterm_folding, "UNSAVED_MAX", 1)
    entered, real = threading.Event(), VectorBase.folded

    def folded(*given: Any) -> VectorBase:
        if entered.is_set():
            return real(*given)
        entered.set()
        while True:
            given[-1]()  # goes on until it may not

    monkeypatch.setattr(VectorBase, "folded", folded)
    owned = owning()
    secret, *_ = owned.remember("unmistakable tea", "black tea")
    owned.settle()
    owned.until(entered.is_set)
    owned.ask(owned.erase(secret), m.MemoriesErasedReply)
    assert left_of(owned.directory, "unmistakable") == []
    indexing = owned.owner.indexing
    assert indexing is not None and indexing.error is None
    assert owned.found("tea", strategy="vector") == ["black tea"]


def test_an_erasure_does_not_wait_for_words_that_are_to_be_brought(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 100,000 erased memories each of them was taken out of the index that goes, first."""
    owned = owning("none")
    secret, *_ = owned.remember("unmistakable tea", "black tea")
    owned.settle()
    with monkeypatch.context() as patched:
        patched.setattr(LongTermIndex, "bring", lambda index, limit=None: index.lag)
        owned.ask(owned.remember_request("late tea"), m.MemoriesReply)
        owned.ask(owned.erase(secret), m.MemoriesErasedReply)
        assert owned.index().lag == 2
        assert left_of(owned.directory, "unmistakable") == []
    owned.remember("green tea")
    owned.settle()
    assert sorted(owned.found("tea", strategy="text")) == ["black tea", "green tea", "late tea"]
    owned.owner.close()
    again = owning("none")
    assert sorted(again.found("tea", strategy="text")) == ["black tea", "green tea", "late tea"]
