"""Going over to another embedder while the store is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from neverforget.actors import embedder_line
from neverforget.actors import longterm_messages as m
from neverforget.actors.embedder_health import PAUSE_S_MAX
from neverforget.storage.embedder_file import EmbedderFile, read_embedder
from neverforget.storage.filesystem import LocalFileSystem
from tests.actors import longterm_process
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm, hits
from tests.actors.test_longterm_embedder_faults import Late
from tests.fakes.embedders import FAILURES, POISON, Faulty, Hanging, Plain, Poisoned, is_down
from tests.fakes.held_documents import StopsAtADocument
from tests.storage.bytes_left import left_of


def ask(owned: OwnedLongTerm, name: str, *, begin: bool = False) -> m.ReindexReply:
    return owned.ask(m.Reindex(1, name, begin), m.ReindexReply)


def reindex(owned: OwnedLongTerm, name: str) -> m.ReindexReply:
    """Until it is over."""
    ask(owned, name, begin=True)
    replies: list[m.ReindexReply] = []

    def over() -> bool:
        replies.append(ask(owned, name))
        return replies[-1].state != "running"

    owned.until(over)
    return replies[-1]


def held(owned: OwnedLongTerm) -> EmbedderFile:
    return read_embedder(LocalFileSystem(), owned.directory)


def folders(owned: OwnedLongTerm) -> list[str]:
    return sorted(path.name for path in owned.directory.glob("derived-*"))


def test_a_store_goes_over_to_another_embedder(owning: Owning) -> None:
    owned = owning({"test": Plain(8), "other": Plain(16)})
    texts = [f"memory number {n}" for n in range(100)]
    owned.remember(*texts)
    owned.settle()
    reply = reindex(owned, "other")
    assert (reply.state, reply.done, reply.total, reply.reason) == ("done", 100, 100, None)
    assert held(owned) == EmbedderFile("other", "plain-16", 16, "derived-2")
    assert folders(owned) == ["derived-2"]
    index = owned.index()
    assert (index.embedder, index.model, index.dimension) == ("other", "plain-16", 16)
    assert (index.vectors, index.waiting, index.generation) == (100, 0, 1)
    owned.remember("afterwards")
    assert owned.found("afterwards", strategy="vector", limit=1) == ["afterwards"]

    owned.owner.close()
    embedder = Plain(16)
    again = owning({"other": embedder})
    assert again.found("memory number 7", strategy="vector", limit=1) == ["memory number 7"]
    assert embedder.asked == [["memory number 7"]]


def test_the_first_answers_and_takes_writes_until_the_second_is_complete(owning: Owning) -> None:
    slow = Hanging()
    owned = owning({"test": Plain(16), "slow": slow})
    (old, gone) = owned.remember("old tea", "tea to forget")
    owned.settle()
    try:
        assert ask(owned, "slow", begin=True).state == "running"
        owned.until(slow.entered.is_set)
        assert owned.found("tea", strategy="vector") == ["old tea", "tea to forget"]
        owned.remember("new tea")
        owned.ask(owned.forget(gone), m.ForgottenReply)
        owned.ask(owned.revise(old, text="revised tea"), m.MemoriesReply)
        found = owned.found("tea", strategy="vector")
        assert sorted(found) == ["new tea", "revised tea"]
        reply = ask(owned, "slow")
        assert (reply.state, reply.done) == ("running", 0)
        assert owned.refused(m.Reindex(1, "third", True)) == "conflict"
        assert held(owned).name == "test"
    finally:
        slow.release.set()
    owned.until(lambda: ask(owned, "slow").state == "done")
    assert sorted(owned.found("tea", strategy="vector")) == ["new tea", "revised tea"]
    assert sorted(owned.found("tea", strategy="text")) == ["new tea", "revised tea"]
    assert owned.index().embedder == "slow"


@pytest.mark.parametrize("moment", ["asked", "begun", "opening", "filling"])
def test_to_ask_for_the_embedder_that_there_is_gives_up_the_other(
    owning: Owning, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """One that does not answer was waited for as long as the store was open, and nobody could say
    that another was to be taken instead.
    """
    slow, silent = Hanging(), Late()
    owned = owning({"test": Plain(16), "slow": slow, "silent": silent, "third": Plain(32)})
    owned.remember("green tea", "black tea")
    owned.settle()
    stops = None
    other = "silent" if moment == "begun" else "slow"
    with monkeypatch.context() as patched:
        if moment == "opening":
            stops = StopsAtADocument(patched)
        ask(owned, other, begin=True)
        if stops is not None:
            owned.until(stops.entered.is_set)
        elif moment == "begun":
            owned.until(lambda: ask(owned, other).reason is not None)
        elif moment == "filling":
            owned.until(slow.entered.is_set)
        reply = ask(owned, "test", begin=True)
        if stops is not None:
            stops.go_on.set()
        slow.release.set()
    assert reply.state in ("running", "done")
    owned.until(lambda: ask(owned, "test").state == "done")
    told = ask(owned, other)
    assert told.state == "failed" and told.reason is not None and "given up" in told.reason
    owned.until(lambda: folders(owned) == ["derived-1"])
    assert held(owned).name == "test"
    assert sorted(owned.found("tea", strategy="vector")) == ["black tea", "green tea"]
    assert reindex(owned, "third").state == "done"
    assert sorted(owned.found("tea", strategy="vector")) == ["black tea", "green tea"]
    assert len(folders(owned)) == 1


def test_an_erasure_meanwhile_reaches_both(owning: Owning) -> None:
    slow = Hanging()
    owned = owning({"test": Plain(16), "slow": slow})
    secret, _ = owned.remember("unmistakable xylophone", "tea")
    owned.settle()
    try:
        ask(owned, "slow", begin=True)
        owned.until(slow.entered.is_set)
        owned.ask(owned.erase(secret), m.MemoriesErasedReply)
        assert left_of(owned.directory, "xylophone") == []
    finally:
        slow.release.set()
    owned.until(lambda: ask(owned, "slow").state == "done")
    assert owned.index().vectors == 1
    assert left_of(owned.directory, "xylophone") == []


def test_one_that_is_not_there_fails_and_changes_nothing(owning: Owning) -> None:
    owned = owning({"test": Plain(8)})
    owned.remember("tea")
    owned.settle()
    reply = reindex(owned, "nobody")
    assert reply.state == "failed"
    assert reply.reason is not None and "nobody" in reply.reason
    assert (held(owned).name, folders(owned)) == ("test", ["derived-1"])
    assert owned.found("tea", strategy="vector") == ["tea"]


def test_an_outage_of_the_new_one_is_waited_out(owning: Owning) -> None:
    new = Faulty(16)
    new.fault = is_down
    owned = owning({"test": Plain(8), "new": new})
    owned.remember("tea")
    owned.settle()
    ask(owned, "new", begin=True)
    owned.until(lambda: ask(owned, "new").reason is not None)
    assert ask(owned, "new").state == "running"
    assert owned.found("tea", strategy="vector") == ["tea"]
    new.fault = None

    def done() -> bool:
        owned.pass_time(PAUSE_S_MAX + 1)
        return ask(owned, "new").state == "done"

    owned.until(done)
    assert owned.found("tea", strategy="vector") == ["tea"]


def test_a_text_that_cannot_be_embedded_does_not_hold_it_up(owning: Owning) -> None:
    owned = owning({"test": Plain(8), "new": Poisoned(FAILURES[0], 16)})
    owned.remember("tea", POISON)
    owned.settle()
    assert reindex(owned, "new").state == "done"
    index = owned.index()
    assert (index.vectors, index.failed) == (1, 1)


@pytest.mark.parametrize("back", [True, False])
def test_a_store_may_lose_its_embedder_and_get_one(owning: Owning, back: bool) -> None:
    owned = owning({"test": Plain(8)})
    owned.remember("tea")
    owned.settle()
    assert reindex(owned, "none").state == "done"
    assert owned.index().embedder_state == "none"
    assert hits(owned.recall("tea"))[0].memory.text == "tea"
    assert owned.refused(owned.recall_request("tea", strategy="vector")) == "invalid_argument"
    if back:
        assert reindex(owned, "test").state == "done"
        assert owned.found("tea", strategy="vector") == ["tea"]
    else:
        owned.owner.close()
        again = owning({"test": Plain(8)})
        assert again.index().embedder_state == "none"


def test_the_one_it_has_is_done_at_once(owning: Owning) -> None:
    embedder = Plain(8)
    owned = owning({"test": embedder})
    owned.remember("tea")
    owned.settle()
    asked = len(embedder.asked)
    assert reindex(owned, "test").state == "done"
    assert (len(embedder.asked), folders(owned)) == (asked, ["derived-1"])


def test_a_new_model_under_the_old_name_is_taken_over(owning: Owning) -> None:
    """What the error of another model says is the way out."""
    owned = owning({"test": Plain(8)})
    owned.remember("tea")
    owned.settle()
    owned.owner.close()
    other = owning({"test": Plain(16)})
    assert not other.recall("tea").complete  # asked for by meaning, it says what it is
    assert other.index().embedder_state == "failing"
    assert reindex(other, "test").state == "done"
    assert other.found("tea", strategy="vector") == ["tea"]
    assert other.index().dimension == 16


def test_what_was_not_finished_is_removed_and_may_begin_anew(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder_line, "_END_S", 0.05)  # for one that hangs it waits in vain
    slow = Hanging()
    embedders: dict[str, Any] = {"test": Plain(8), "slow": slow}
    owned = owning(embedders)
    owned.remember("tea")
    owned.settle()
    try:
        ask(owned, "slow", begin=True)
        owned.until(slow.entered.is_set)
        assert folders(owned) == ["derived-1", "derived-2"]
        owned.owner.close()
    finally:
        slow.release.set()
    again = owning(embedders)
    assert folders(again) == ["derived-1"]
    assert ask(again, "slow").state == "idle"
    assert again.found("tea", strategy="vector") == ["tea"]
    assert reindex(again, "slow").state == "done"


@pytest.mark.parametrize(
    "lines", [1, 9, "done", *(pytest.param(n, marks=pytest.mark.long) for n in (4, 13))]
)
def test_kill_9_on_the_way_leaves_the_one_or_the_other(owning: Owning, lines: int | str) -> None:
    """Whichever EMBEDDER names, whole; and what was begun is gone."""
    owned = owning(longterm_process.embedders())
    texts = [f"memory number {n}" for n in range(100)]
    owned.remember(*texts)
    owned.settle()
    owned.owner.close()
    command = [sys.executable, "-m", longterm_process.__name__, str(owned.directory)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        while said[-1:] != ["done"] and len(said) != lines:
            said.append(process.stdout.readline().strip())
            assert said[-1], said
        process.kill()
    name = held(owned).name
    assert name == "next" if lines == "done" else name in ("test", "next")
    again = owning(longterm_process.embedders())
    again.settle()
    assert len(folders(again)) == 1
    assert again.index().embedder == name
    assert again.index().vectors == 100
    for strategy in ("text", "vector"):
        assert again.found("memory number 42", strategy=strategy, limit=1) == ["memory number 42"]
    assert reindex(again, "next").state == "done"
    assert again.found("memory number 42", strategy="vector", limit=1) == ["memory number 42"]
