"""An erasure is answered when no derived file holds its words, whatever else happens meanwhile: at
each step of storing a generation, and of opening those that there are.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neverforget.actors import generation_storing, index_folders
from neverforget.actors import longterm_messages as m
from neverforget.actors.deriving import Derive
from neverforget.actors.messages import SYNC_PROCESS, AnyRequest
from neverforget.storage import longterm_generations, longterm_publishing
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import NewDerived
from neverforget.storage.manifest import read_manifest
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import PATIENCE_S, OwnedLongTerm, own
from tests.actors.regions import Asked
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.storage.bytes_left import left_of

SECRET = "xylophone"
PUBLICATION = longterm_publishing.Publication
GENERATIONS = longterm_generations.Generations
STORING = [
    (generation_storing.Storing, "_begin"),
    (PUBLICATION, "run"),
    (PUBLICATION, "_rows"),
    (PUBLICATION, "_table"),
    (PUBLICATION, "_text"),
    (longterm_publishing, "publish"),
    (GENERATIONS, "finish"),
]
OPENING = [
    (index_folders.IndexFolders, "open"),
    (GENERATIONS, "_open"),
    (GENERATIONS, "_open_words"),
]


class Stop:
    """Stops the first thread that comes to a step, before it or behind it, until ``go_on``."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, *, behind: bool
    ) -> None:
        self.reached, self._released = threading.Event(), threading.Event()
        real = getattr(place, name)

        def step(*asked: Any, **how: Any) -> Any:
            first = not self.reached.is_set()
            if first and not behind:
                self._wait()
            done = real(*asked, **how)
            if first and behind:
                self._wait()
            return done

        monkeypatch.setattr(place, name, step)

    def _wait(self) -> None:
        self.reached.set()
        assert self._released.wait(PATIENCE_S)

    def go_on(self) -> None:
        self._released.set()


def answered_clean(owned: OwnedLongTerm, asked: Asked) -> None:
    """It reports nothing that is left, and nothing is."""
    owned.until(lambda: bool(asked.replies))
    assert isinstance(asked.answer, m.MemoriesErasedReply)
    assert asked.answer.result.unreachable == ["backups and exports made before it"]
    assert left_of(owned.directory, SECRET) == []


def erased_while_stopped(owned: OwnedLongTerm, secret: str, stop: Stop) -> None:
    """With a write beside it of which the indexes are told later only."""
    owned.until(stop.reached.is_set)
    (asked,) = owned.start(owned.erase(secret))
    owned.until(lambda: not len(owned.owner.deletions))
    owned.start(owned.remember_request("of a moment ago", sync=SYNC_PROCESS))
    assert not asked.replies or not left_of(owned.directory, SECRET)
    stop.go_on()
    answered_clean(owned, asked)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("place", "name"), STORING)
def test_at_each_step_of_a_generation_that_holds_its_words(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, behind: bool
) -> None:
    secret, _ = longterm.remember(f"unmistakable {SECRET}", "tea")
    longterm.settle()
    stop = Stop(monkeypatch, place, name, behind=behind)
    while_time_passes(longterm, stop.reached.is_set)
    erased_while_stopped(longterm, secret, stop)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("place", "name"), STORING)
def test_at_each_step_of_the_generation_that_leaves_out_another(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, behind: bool
) -> None:
    other, secret = longterm.remember("tea", f"unmistakable {SECRET}")
    stored(longterm)
    stop = Stop(monkeypatch, place, name, behind=behind)
    (first,) = longterm.start(longterm.erase(other))
    erased_while_stopped(longterm, secret, stop)
    longterm.until(lambda: bool(first.replies))


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("place", "name"), OPENING)
def test_at_each_step_of_opening(
    owning: Owning, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, behind: bool
) -> None:
    former = owning()
    secret, _ = former.remember(f"unmistakable {SECRET}", "tea")
    stored(former)
    former.owner.close()
    stop = Stop(monkeypatch, place, name, behind=behind)
    owned = owning(opened=False)
    owned.owner.open()
    erased_while_stopped(owned, secret, stop)


def remembering(owned: OwnedLongTerm, other: str) -> AnyRequest:
    return owned.remember_request("of a moment ago", sync=SYNC_PROCESS)


def revising(owned: OwnedLongTerm, other: str) -> AnyRequest:
    return msgspec.structs.replace(owned.revise(other, text="coffee"), sync=SYNC_PROCESS)


def chunking(owned: OwnedLongTerm, other: str) -> Any:
    ends = (0, 1), (1, 3)
    parts = [
        NewDerived(derived_id(other, 1, "chunk", (a, b), "test"), "tea"[a:b], "chunk", (a, b))
        for a, b in ends
    ]
    return Derive(owned.next_id(), other, 1, parts, "test")


@pytest.mark.parametrize("writing", [remembering, revising, chunking])
def test_writes_of_which_the_indexes_know_nothing_yet_do_not_spoil_the_generation(
    longterm: OwnedLongTerm,
    monkeypatch: pytest.MonkeyPatch,
    writing: Callable[[OwnedLongTerm, str], Any],
) -> None:
    """Chunks that were stored between an erasure and the generation that leaves it out were in some
    of its columns, and not in others: it failed, and the erasure was answered half a second before
    the next one, with the old files still there. Any write that had not been synced did that.
    """
    secret, other = longterm.remember(f"unmistakable {SECRET}", "tea")
    stored(longterm)
    stop = Stop(monkeypatch, generation_storing.Storing, "_begin", behind=False)
    (asked,) = longterm.start(longterm.erase(secret))
    longterm.until(stop.reached.is_set)
    (written,) = longterm.start(writing(longterm, other))
    assert written.code is None
    stop.go_on()
    answered_clean(longterm, asked)
    region = longterm.owner._life.region
    assert region is not None
    folder = longterm.directory / "derived-1"
    manifest = read_manifest(LocalFileSystem(), folder, region.state.log_id)
    # What the erasure says when it is done changes nothing, and may come before that moment.
    assert region.state.applied <= manifest.watermark <= region.durable, "and is of one moment"


def test_a_sync_that_fails_where_a_generation_begins_is_the_end_of_the_region_only(
    owning: Owning,
) -> None:
    """The indexer finds it out; its owner opens the region anew, and the generation is stored."""
    fs, failed = FailingFileSystem(), threading.Event()
    owned = owning(fs=fs, sync_interval_ms=10_000_000)
    owned.settle()
    owned.start(owned.remember_request("written, not synced", sync=SYNC_PROCESS))

    def fail_once(op: str, path: Path) -> bool:
        now = op == "sync" and path.suffix == ".seg" and not failed.is_set()
        if now:
            failed.set()
        return now

    fs.fails = fail_once
    while_time_passes(owned, failed.is_set)
    assert owned.owner.state == "serving"
    owned.pass_time(10_000)
    owned.until(lambda: owned.owner._life.epoch == 2 and owned.owner.state == "serving")
    while_time_passes(owned, lambda: owned.index().generation > 0)
    assert owned.found("written")[0] == "written, not synced"


def test_what_an_owner_had_to_leave_its_successor_takes_away(
    owning: Owning, tmp_path: Path
) -> None:
    """Killed between an answer that says so and the generation that follows it."""
    fs = FailingFileSystem()
    owned = owning(fs=fs)
    secret, _ = owned.remember(f"unmistakable {SECRET}", "tea")
    stored(owned)
    fs.fails = lambda op, path: "derived-1" in path.parts
    erased = owned.ask(owned.erase(secret), m.MemoriesErasedReply)
    assert "search indexes" in erased.result.unreachable[-1]
    killed = tmp_path / "killed" / "0"
    shutil.copytree(owned.directory, killed)
    fs.mend()
    assert left_of(killed, SECRET) != []
    successor = own(killed)
    try:
        indexing = successor.owner.indexing
        assert indexing is not None
        successor.until(lambda: indexing.is_clean(0))
        assert left_of(killed, SECRET) == []
    finally:
        successor.owner.close()


def stored(owned: OwnedLongTerm) -> None:
    """A generation holds all that there is."""
    owned.settle()
    while_time_passes(owned, lambda: owned.index().generation > 0)
    assert left_of(owned.directory / "derived-1", SECRET) != []


def while_time_passes(owned: OwnedLongTerm, condition: Callable[[], bool]) -> None:
    def there() -> bool:
        owned.pass_time(1.0)
        return condition()

    owned.until(there)
