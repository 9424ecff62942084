"""What is derived may be lost, damaged or impossible to store: callers see none of it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.generation_storing import IDLE_S
from neverforget.actors.messages import Failure, Verify, VerifyReply
from neverforget.storage import longterm_folding
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.manifest import examine
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import PRODUCER, OwnedLongTerm
from tests.fakes.embedders import Plain
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.storage.bytes_left import left_of


def publish(owned: OwnedLongTerm) -> int:
    """Let it be idle for long enough; the number of the new generation."""
    owned.settle()
    before = owned.index().generation
    owned.pass_time(IDLE_S + 1)
    owned.until(lambda: owned.index().generation > before)
    return owned.index().generation


def derived(owned: OwnedLongTerm) -> Path:
    return owned.directory / "derived-1"


def all_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_generation_is_stored_when_nothing_happens_for_a_while(longterm: OwnedLongTerm) -> None:
    longterm.remember("green tea")
    longterm.settle()
    assert longterm.index().generation == 0
    publish(longterm)
    index = longterm.index()
    assert (index.generation, index.published_us) == (1, int(longterm.clock.now * 1e6))
    assert index.derived_bytes == sum(path.stat().st_size for path in all_files(derived(longterm)))
    longterm.pass_time(10 * IDLE_S)
    assert longterm.index().generation == 1  # nothing has changed


def test_many_vectors_are_stored_though_something_goes_on(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longterm_folding, "UNSAVED_MAX", 8)
    longterm.remember(*(f"tea number {n}" for n in range(6)))
    longterm.settle()
    assert longterm.index().generation == 0 and not [*derived(longterm).glob("vectors-*")]
    longterm.remember("green tea", "black tea", "white tea")
    longterm.settle()
    longterm.until(lambda: longterm.index().generation == 1)
    stored = [path.name for path in derived(longterm).glob("vectors-*")]
    assert len(stored) == 1
    assert stored[0].encode() in (derived(longterm) / "MANIFEST").read_bytes()


def test_what_a_generation_holds_is_not_embedded_again(owning: Owning) -> None:
    owned = owning(Plain())
    owned.remember("green tea", "black tea")
    publish(owned)
    owned.owner.close()
    embedder = Plain()
    again = owning(embedder)
    again.settle()
    assert len(again.found("tea", strategy="vector")) == 2
    assert embedder.asked == [["tea"]]


@pytest.mark.parametrize("harm", ["gone", "flipped"])
def test_any_damaged_file_is_made_anew_and_reported(owning: Owning, harm: str) -> None:
    texts = [f"memory number {n}" for n in range(20)]
    owned = owning(Plain())
    owned.remember(*texts)
    publish(owned)
    owned.owner.close()
    folder = derived(owned)
    pristine = folder.with_name("pristine")
    shutil.copytree(folder, pristine)
    for path in all_files(pristine):
        if path.name == "LOCK":
            continue
        shutil.rmtree(folder)
        shutil.copytree(pristine, folder)
        victim = folder / path.relative_to(pristine)
        damage(victim, harm)
        again = owning(Plain())
        again.settle()
        for strategy in ("text", "vector"):
            assert sorted(again.found("memory number", strategy=strategy, limit=50)) == sorted(
                texts
            ), (victim, strategy)
        again.owner.close()


def damage(path: Path, harm: str) -> None:
    data = path.read_bytes()
    if harm == "gone":
        path.unlink()
    elif data:
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :])


def test_damage_is_in_the_findings(owning: Owning) -> None:
    owned = owning(Plain())
    owned.remember("green tea")
    publish(owned)
    (vectors,) = derived(owned).glob("vectors-*")
    owned.owner.close()
    damage(vectors, "flipped")
    again = owning(Plain())
    again.settle()
    found = again.ask(Verify(1), VerifyReply).findings
    assert [(f.kind, f.severity, f.file) for f in found] == [
        ("bad_derived_file", "repaired", str(vectors))
    ]
    assert again.index().findings == found
    assert again.found("tea", strategy="vector") == ["green tea"]


PARTS = ("rows", "vectors", "table", "text")


def part_of(owned: OwnedLongTerm, role: str) -> Path:
    """The file of this part, or one of it."""
    (found,) = derived(owned).glob(f"{role}-*")
    return found if found.is_file() else sorted(found.glob("*.term"))[0]


def is_whole_on_disk(owned: OwnedLongTerm) -> bool:
    log_id = read_identity(LocalFileSystem(), owned.directory).log_id
    found = examine(LocalFileSystem(), derived(owned), log_id, depth="sha")
    return found.manifest is not None and found.findings == ()


@pytest.mark.parametrize("role", PARTS)
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_damage_that_is_verified_is_shown_and_healed_while_the_store_is_open(
    owning: Owning, role: str, how: str
) -> None:
    """It was made anew when the store was opened the next time, and until then nobody was told."""
    owned = owning()
    owned.remember("green tea", "black tea")
    before = publish(owned)
    damage(part_of(owned, role), how)
    assert not is_whole_on_disk(owned)
    assert owned.index().findings == []
    found = owned.ask(Verify(1), VerifyReply).findings
    assert [(f.kind, f.severity) for f in found] == [("bad_derived_file", "repaired")]
    owned.until(lambda: owned.index().generation > before)
    assert is_whole_on_disk(owned)
    assert [f.file for f in owned.index().findings] == [found[0].file]
    assert sorted(owned.found("tea", strategy="text")) == ["black tea", "green tea"]
    owned.owner.close()
    again = owning()
    assert again.index().findings == [] and again.index().waiting == 0
    assert len(again.found("tea", strategy="text")) == 2


@pytest.mark.parametrize("role", PARTS)
def test_a_file_that_is_gone_is_in_the_next_generation_again(owning: Owning, role: str) -> None:
    """That generation named it, and was damaged when it was made."""
    owned = owning()
    owned.remember("green tea", "black tea")
    publish(owned)
    path = part_of(owned, role)
    path.unlink()
    owned.remember("white tea")
    publish(owned)
    assert is_whole_on_disk(owned)
    (found,) = owned.index().findings
    assert found.kind == "bad_derived_file" and str(path).startswith(found.file)
    assert sorted(owned.found("tea", strategy="text")) == ["black tea", "green tea", "white tea"]
    owned.owner.close()
    again = owning()
    assert again.index().findings == []
    assert (again.index().waiting, again.index().vectors) == (0, 3)


def test_a_search_that_fails_over_a_damaged_file_has_it_made_anew(owning: Owning) -> None:
    """Each recall failed until somebody verified, or the store was opened again."""
    first = owning()
    first.remember("green tea", "black tea")
    before = publish(first)
    first.owner.close()
    owned = owning()
    assert len(owned.found("tea", strategy="text")) == 2
    (postings,) = derived(owned).glob("text-*/*.idx")
    with postings.open("r+b") as file:  # in place: it is mapped
        file.write(b"\xff" * postings.stat().st_size)
    failed = owned.ask(owned.recall_request("tea", strategy="text"), Failure)
    assert "internal error" in failed.message
    owned.until(lambda: owned.index().generation > before)
    assert sorted(owned.found("tea", strategy="text")) == ["black tea", "green tea"]
    assert [f.kind for f in owned.index().findings] == ["bad_derived_file"]
    assert is_whole_on_disk(owned)


class SlowOnTea(Plain):
    """Hangs with memories of tea until ``release`` is set, and not with the query for it."""

    thread_safe = True

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.release = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Any:
        if any(" tea" in text for text in texts):
            self.entered.set()
            self.release.wait()
        return super().embed(texts)


def test_recalls_are_not_complete_until_vectors_that_were_lost_are_there_again(
    owning: Owning,
) -> None:
    """Only ``pending`` told: a client that had written nothing was told that all was found."""
    owned = owning(Plain())
    owned.remember("green tea", "black tea")
    publish(owned)
    owned.owner.close()
    shutil.rmtree(derived(owned))
    slow = SlowOnTea()
    again = owning(slow)
    try:
        again.until(slow.entered.is_set)
        reply = again.recall("tea", after=0)
        assert (reply.complete, reply.pending) == (False, 2)
        assert reply.reason is not None and "embedded yet" in reply.reason
        assert again.recall("tea", after=0, strategy="text").complete
    finally:
        slow.release.set()
    again.settle()
    reply = again.recall("tea", after=0)
    assert (reply.complete, reply.pending, reply.reason) == (True, 0, None)


def test_what_others_have_just_written_is_no_gap(owning: Owning) -> None:
    slow = SlowOnTea()
    owned = owning(slow)
    owned.remember("coffee")
    owned.settle()
    try:
        owned.remember("black tea")
        owned.index()
        reply = owned.recall("tea", after=0)
        assert reply.complete and reply.pending == 1
        assert not owned.recall("tea", wait_ms=0).complete
    finally:
        slow.release.set()


def test_the_time_of_a_generation_is_known_after_opening(owning: Owning) -> None:
    """It was shown as never stored."""
    owned = owning()
    assert owned.index().published_us == 0
    owned.remember("tea")
    publish(owned)
    owned.owner.close()  # which may store another
    written = (derived(owned) / "MANIFEST").stat().st_mtime_ns // 1_000
    assert owning().index().published_us == written


def test_an_erased_text_is_in_no_file_when_the_erasure_is_answered(longterm: OwnedLongTerm) -> None:
    erased, kept = longterm.remember("unmistakable xylophone", "something else")
    publish(longterm)
    assert any("text-" in place for place in left_of(longterm.directory, "xylophone"))
    reply = longterm.ask(longterm.erase(erased), m.MemoriesErasedReply)
    assert reply.result.ids == [erased]
    assert len(reply.result.unreachable) == 1  # backups
    assert left_of(longterm.directory, "xylophone") == []
    assert left_of(longterm.directory, "unmistakable") == []
    assert longterm.get(erased, kept) == [None, "something else"]
    assert longterm.found("xylophone", strategy="text") == []
    assert longterm.index().vectors == 1


def test_an_erasure_that_takes_no_memory_is_answered_too(longterm: OwnedLongTerm) -> None:
    """It makes every file anew, as any, but changes no memory: the indexer was not woken, and who
    asked waited until something else happened, for ever where nothing did.
    """
    longterm.remember("something else")
    publish(longterm)
    number = longterm.next_id()
    request = m.EraseMemoriesWhere(
        number, (), "tester", PRODUCER, number, ("nobody",), False, "confirmed", None
    )
    reply = longterm.ask(request, m.MemoriesErasedReply)
    assert reply.result.ids == [] and len(reply.result.unreachable) == 1  # backups


def test_a_purge_is_answered_when_its_words_are_gone(longterm: OwnedLongTerm) -> None:
    (memory,) = longterm.remember("unmistakable xylophone")
    publish(longterm)
    longterm.ask(longterm.forget(memory), m.ForgottenReply)
    longterm.pass_time(60)
    number = longterm.next_id()
    before = int(longterm.clock.now * 1e6) + 1
    purge = m.Purge(number, (), "tester", 7, number, before, False, "confirmed", None)
    assert longterm.ask(purge, m.ForgottenReply).count == 1
    assert left_of(longterm.directory, "xylophone") == []


def test_an_erasure_tells_where_a_copy_is_left_when_the_disk_is_full(owning: Owning) -> None:
    """The log is clean, no search finds it; the derived files are rewritten when there is room."""
    fs = FailingFileSystem()
    fs.full = True
    owned = owning(Plain(), fs=fs)
    (memory,) = owned.remember("unmistakable xylophone")
    publish(owned)
    fs.fails = lambda op, path: op == "create" and "derived" in str(path)
    request = owned.erase(memory)
    reply = owned.ask(request, m.MemoriesErasedReply)
    assert any("search indexes" in said for said in reply.result.unreachable)
    assert owned.found("xylophone") == []
    fs.mend()
    owned.pass_time(60)
    again = owned.ask(request, m.MemoriesErasedReply)  # repeated, it waits for that
    owned.until(lambda: owned.index().generation > 1)
    assert again.result.ids == [memory]
    assert left_of(owned.directory, "xylophone") == []


def test_a_full_disk_stops_neither_writes_nor_searches(owning: Owning) -> None:
    fs = FailingFileSystem()
    fs.full = True
    owned = owning(Plain(), fs=fs)
    owned.remember("white tea")
    owned.settle()
    fs.fails = lambda op, path: op == "create" and "derived" in str(path)
    owned.remember("green tea")
    owned.settle()
    owned.pass_time(IDLE_S + 1)
    owned.remember("black tea")
    assert sorted(owned.found("tea")) == ["black tea", "green tea", "white tea"]
    assert owned.index().generation == 0
    fs.mend()
    owned.settle()
    owned.pass_time(60 + IDLE_S)
    owned.until(lambda: owned.index().generation > 0)
