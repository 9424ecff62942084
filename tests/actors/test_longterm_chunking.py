"""Long memories are chunked behind the back of whoever remembers them: what waits, what goes wrong
with one of them, and what the owner does of it when.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from neverforget.actors import chunking, longterm_indexing
from neverforget.actors import longterm_messages as m
from neverforget.actors.chunker_pool import IDLE_S
from neverforget.actors.chunker_spec import ChunkerSpec, Document
from neverforget.actors.chunking_tries import TRIES_MAX, Trial, Tries
from neverforget.actors.deriving import Derive, Deriving
from neverforget.actors.longterm_chunking import BUSY_S, FREE_SHARE, LongTermChunking
from neverforget.actors.messages import Settle, Verify, VerifyReply
from neverforget.actors.summaries import PAUSE_S_MIN
from neverforget.storage.errors import Unavailable
from neverforget.storage.longterm_unchunked import LongText
from tests.actors.chunkers import Scripted, long_text
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm, spec, views
from tests.actors.regions import PATIENCE_S, ManualClock
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.fakes.summarizers import Answering, Hanging

Does = Callable[[Sequence[Document]], None]


def chunks(owned: OwnedLongTerm, memory: str) -> list[str]:
    reply = owned.ask(m.Chunks(owned.next_id(), (), memory, None), m.MemoriesReply)
    return [view.text for view in views(reply)]


def status(owned: OwnedLongTerm) -> m.ChunkingStatus:
    found = owned.status().chunking
    assert found is not None
    return found


def errors(owned: OwnedLongTerm) -> list[str]:
    found = owned.ask(Verify(1), VerifyReply).findings
    return [finding.kind for finding in found if finding.severity == "error"]


def poisonous(documents: Sequence[Document]) -> None:
    """Some texts end whoever cuts them."""
    if any("poison" in one.text for one in documents):
        raise Unavailable("killed", outcome="not_applied")


def seconds_passed(owned: OwnedLongTerm, until: Callable[[], bool]) -> int:
    """How many had to pass until then: time goes on when all that waits has to wait for it."""
    current = owned.owner.chunking._current
    assert current is not None

    def nothing_is_due() -> bool:
        found = status(owned)
        pausing = (
            current._tries.pausing == found.waiting > 0
            or current._not_before > owned.clock.monotonic()
        )
        return found.running == 0 and pausing

    for passed in range(100):
        owned.until(lambda: until() or nothing_is_due())
        if until():
            return passed
        owned.pass_time(1)
    raise AssertionError(status(owned))


@pytest.fixture
def chunked(owning: Owning) -> OwnedLongTerm:
    return owning(chunkers=Scripted)


def test_a_long_memory_gets_chunks_that_joined_are_its_text(chunked: OwnedLongTerm) -> None:
    text = long_text("tea")
    long, short = chunked.remember(text, "short")
    chunked.settle()
    assert "".join(chunks(chunked, long)) == text
    assert len(chunks(chunked, long)) > 2 and chunks(chunked, short) == []
    assert chunked.get(long) == [text]
    assert status(chunked) == m.ChunkingStatus(0, 0, 0, 1, 0, None)
    (hit,) = chunked.found("tea audit launch", limit=1)
    assert hit == text  # found by a chunk, and shown itself
    assert errors(chunked) == []


def test_nobody_waits_for_chunks_and_the_status_counts_them(owning: Owning) -> None:
    go = threading.Event()
    owned = owning(
        chunkers=lambda: Scripted(lambda documents: (go.wait(), None)[1]), chunker_processes=1
    )
    ids = owned.remember(*(long_text(f"number{n}") for n in range(20)))
    owned.until(lambda: status(owned).running == 8)
    assert status(owned) == m.ChunkingStatus(12, 8, 0, 1, 0, None)
    (asked,) = owned.start(Settle(owned.next_id()))
    assert not asked.replies
    assert owned.get(ids[0]) == [long_text("number0")]
    go.set()
    owned.until(lambda: bool(asked.replies))
    assert all(chunks(owned, each) for each in ids)


def test_the_status_counts_what_the_thread_has_not_looked_at_yet(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that nothing waits, for moments after each write, and longer after the opening."""
    monkeypatch.setattr(chunking, "_LOOK_S", 1e9)
    go = threading.Event()
    owned = owning(chunkers=lambda: Scripted(lambda documents: (go.wait(), None)[1]))
    current = owned.owner.chunking._current
    assert current is not None
    owned.until(lambda: current._followed == current._noticed)  # and never again
    owned.remember(long_text("tea"), "short")
    found = status(owned)
    assert found.waiting + found.running == 1
    go.set()


def test_the_pool_grows_with_the_queue_and_ends_when_it_is_empty(owning: Owning) -> None:
    go = threading.Event()
    owned = owning(
        chunkers=lambda: Scripted(lambda documents: (go.wait(), None)[1]), chunker_processes=3
    )
    owned.remember(long_text("one"))
    owned.until(lambda: status(owned).running == 1)
    assert status(owned).chunkers == 1
    owned.remember(*(long_text(f"number{n}") for n in range(60)))
    owned.until(lambda: status(owned).chunkers == 3)
    go.set()
    owned.settle()
    owned.pass_time(IDLE_S)
    owned.until(lambda: status(owned).chunkers == 0)


def test_what_is_not_longer_than_the_bound_is_left_whole(owning: Owning) -> None:
    owned = owning(chunkers=lambda: Scripted(spec=ChunkerSpec(300)), chunk_over_characters=300)
    below, above = owned.remember("x" * 300, "x" * 301)
    owned.settle()
    assert chunks(owned, below) == [] and "".join(chunks(owned, above)) == "x" * 301


def test_a_store_without_chunkers_chunks_nothing(longterm: OwnedLongTerm) -> None:
    (memory,) = longterm.remember(long_text())
    longterm.settle()
    assert longterm.status().chunking is None and chunks(longterm, memory) == []


def test_one_poisoned_document_does_not_stop_the_rest(owning: Owning) -> None:
    owned = owning(chunkers=lambda: Scripted(poisonous))
    texts = [long_text(f"number{n}") for n in range(5)]
    *good, bad = owned.remember(*texts, long_text("poison"))
    status(owned)  # what was just remembered is noticed
    owned.until(lambda: all(chunks(owned, each) for each in good))
    assert (status(owned).failed, chunks(owned, bad)) == (0, [])
    seconds = seconds_passed(owned, lambda: status(owned).failed == 1)
    assert seconds == 1 + 2 + 4 + 8  # seconds between its tries
    owned.settle()  # it is not waited for
    assert status(owned).error == f"memory {bad}: killed"
    assert status(owned).waiting == status(owned).running == 0
    assert owned.get(bad) == [long_text("poison")] and errors(owned) == []


def test_a_text_that_takes_long_by_itself_does_not_keep_the_others_waiting(owning: Owning) -> None:
    """Both were tried alone after their batch had died, by one chunker: the second waited for the
    first, up to its ten minutes."""
    go = threading.Event()

    def does(documents: Sequence[Document]) -> None:
        if len(documents) > 1:
            raise Unavailable("killed", outcome="not_applied")
        if "held" in documents[0].text:
            go.wait()

    owned = owning(chunkers=lambda: Scripted(does))
    held, other = owned.remember(long_text("held"), long_text("other"))
    status(owned)  # they are noticed
    owned.until(lambda: bool(chunks(owned, other)))
    assert chunks(owned, held) == []
    go.set()
    owned.settle()
    assert chunks(owned, held)


def test_a_failed_document_is_tried_again_when_the_store_is_opened(owning: Owning) -> None:
    owned = owning(chunkers=lambda: Scripted(poisonous))
    (memory,) = owned.remember(long_text("poison"))
    seconds_passed(owned, lambda: status(owned).failed == 1)
    owned.owner.close()
    again = owning(chunkers=Scripted)
    again.settle()
    assert "".join(chunks(again, memory)) == long_text("poison")


def test_a_failed_document_is_tried_again_when_it_says_something_else(owning: Owning) -> None:
    owned = owning(chunkers=lambda: Scripted(poisonous))
    (memory,) = owned.remember(long_text("poison"))
    seconds_passed(owned, lambda: status(owned).failed == 1)
    owned.ask(owned.revise(memory, text=long_text("remedy")), m.MemoriesReply)
    owned.settle()
    assert "".join(chunks(owned, memory)) == long_text("remedy")
    assert status(owned).failed == 0


class Gated(NamedTuple):
    """An owner whose chunker says that it begins, and waits for leave to go on."""

    owned: OwnedLongTerm
    begun: threading.Semaphore
    go: threading.Semaphore

    def being_cut(self, word: str) -> str:
        """A long memory that the chunker has."""
        (memory,) = self.owned.remember(long_text(word))
        self.owned.until(lambda: status(self.owned).running == 1)
        assert self.begun.acquire(timeout=PATIENCE_S)
        return memory


@pytest.fixture
def gated(owning: Owning) -> Gated:
    begun, go = threading.Semaphore(0), threading.Semaphore(0)

    def wait(documents: Sequence[Document]) -> None:
        begun.release()
        assert go.acquire(timeout=PATIENCE_S)

    return Gated(owning(chunkers=lambda: Scripted(wait), chunker_processes=1), begun, go)


def test_what_was_cut_of_a_former_version_is_dropped(gated: Gated) -> None:
    owned, memory = gated.owned, gated.being_cut("former")
    owned.ask(owned.revise(memory, text=long_text("newer")), m.MemoriesReply)
    gated.go.release(2)
    owned.settle()
    assert "".join(chunks(owned, memory)) == long_text("newer")
    assert errors(owned) == [] and status(owned).error is None


@pytest.mark.parametrize("operation", ["forget", "archive"])
def test_what_was_put_away_while_it_was_cut_gets_no_chunks(gated: Gated, operation: str) -> None:
    owned, memory = gated.owned, gated.being_cut("former")
    owned.ask(owned.forget(memory, operation), m.ForgottenReply)
    gated.go.release(2)
    owned.settle()
    assert owned.status().region is not None
    assert owned.found("former", strategy="text") == []
    assert errors(owned) == [] and status(owned) == m.ChunkingStatus(0, 0, 0, 1, 0, None)
    back = "undo-forget" if operation == "forget" else "unarchive"
    owned.ask(owned.forget(memory, back, confirm=None), m.ForgottenReply)
    owned.settle()
    assert "".join(chunks(owned, memory)) == long_text("former")


def test_what_was_erased_while_it_was_cut_leaves_nothing(gated: Gated) -> None:
    owned, memory = gated.owned, gated.being_cut("former")
    owned.ask(owned.erase(memory), m.MemoriesErasedReply)
    gated.go.release()
    owned.settle()
    assert owned.found("former") == [] and errors(owned) == []
    region = owned.status().region
    assert region is not None and region.derived == 0


def test_an_owner_that_ends_while_it_cuts_cuts_again(gated: Gated, owning: Owning) -> None:
    owned, memory = gated.owned, gated.being_cut("former")
    gated.go.release()
    owned.owner.close()
    again = owning(chunkers=Scripted)
    again.settle()
    assert "".join(chunks(again, memory)) == long_text("former")


def test_on_a_full_disk_chunks_wait_and_nothing_is_given_up(owning: Owning) -> None:
    fs = FailingFileSystem()
    fs.full = True
    owned = owning(chunkers=Scripted, fs=fs)
    (first,) = owned.remember(long_text("first", 60_000))
    fs.fails = lambda op, path: op == "create" and path.suffix != ".json"
    seconds_passed(owned, lambda: status(owned).error is not None)
    assert "no room" in str(status(owned).error)
    for _ in range(10):
        owned.pass_time(60)
        owned.until(lambda: status(owned).running == 0)
    assert status(owned).failed == 0 and chunks(owned, first) == []
    fs.mend()
    seconds_passed(owned, lambda: bool(chunks(owned, first)))
    assert "".join(chunks(owned, first)) == long_text("first", 60_000)


def test_after_a_failed_write_the_reopened_log_is_chunked(owning: Owning) -> None:
    fs = FailingFileSystem()
    owned = owning(chunkers=Scripted, fs=fs)
    owned.settle()
    once = iter([True])  # the log is opened anew at once, maybe before anything could be mended
    fs.fails = lambda op, path: op == "sync" and "log" in path.parts and next(once, False)
    assert owned.refused(owned.remember_request(long_text("lost"))) == "poisoned"
    owned.until(lambda: owned.owner.state == "serving")
    (memory,) = owned.remember(long_text("kept"))
    owned.settle()
    assert "".join(chunks(owned, memory)) == long_text("kept")


def test_chunks_that_the_log_never_takes_are_tried_once(owning: Owning) -> None:
    """They were cut five times, in 15 s, and refused each time."""
    cut = threading.Semaphore(0)
    owned = owning(
        chunkers=lambda: Scripted(lambda documents: cut.release()), batch_bytes_max=22_000
    )
    (memory,) = owned.remember(long_text("tea", 20_000))
    owned.until(lambda: status(owned).failed == 1)
    assert "above the limit" in str(status(owned).error)
    owned.pass_time(60)
    owned.settle()
    assert cut.acquire(blocking=False) and not cut.acquire(blocking=False)
    assert chunks(owned, memory) == [] and owned.found("tea audit") == owned.get(memory)


@pytest.mark.parametrize("which", ["chunking", "indexer"])
def test_a_thread_that_hangs_while_a_region_closes_is_named(
    owning: Owning, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    """Whoever had closed the region was told that nobody read it any more."""
    owned = owning(chunkers=Scripted)
    owned.settle()
    owner = owned.owner
    current = owner.chunking._current if which == "chunking" else owner.indexing
    assert current is not None
    begun, go = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go.wait()

    for module in (chunking, longterm_indexing):
        monkeypatch.setattr(module, "_END_S", 0.01)
    monkeypatch.setattr(current, "_step", hang)
    current._woken.set()
    assert begun.wait(PATIENCE_S)
    try:
        owned.owner.close()
    finally:
        go.set()
        current._thread.join(PATIENCE_S)
    assert f"thread neverforget-{which}-lt0 hangs" in caplog.text


def test_a_summary_is_stored_with_the_chunks(owning: Owning) -> None:
    made = ChunkerSpec(summarizer="object:answering", make=lambda _: Answering("All in short."))
    owned = owning(chunkers=lambda: Scripted(spec=made), summarizer="object:answering")
    (memory,) = owned.remember(long_text())
    owned.settle()
    relations = owned.ask(
        m.Relations(1, (), memory, "summarizes", "in", 10), m.RelationsReply
    ).relations
    assert owned.get(relations[0].source) == ["All in short."]
    assert status(owned).summaries_failed == 0


def test_a_failing_summarizer_never_costs_the_chunks(owning: Owning) -> None:
    made = ChunkerSpec(summarizer="object:answering", make=lambda _: Answering(OSError("down")))
    owned = owning(chunkers=lambda: Scripted(spec=made), summarizer="object:answering")
    ids = owned.remember(long_text("one"), long_text("two"))
    owned.settle()
    assert all(chunks(owned, each) for each in ids)
    found = status(owned)
    assert (found.summaries_failed, found.failed) == (2, 0)
    assert found.error == "the summarizer object:answering failed: OSError"


def test_texts_do_not_wait_for_a_summarizer_that_does_not_answer(owning: Owning) -> None:
    """Each new chunker waited for it once more, and all texts that it was given with that."""
    hanging = Hanging()
    made = ChunkerSpec(summarizer="object:hanging", make=lambda _: hanging)
    summary_s = 0.05
    owned = owning(
        chunkers=lambda: Scripted(spec=made, summary_s=summary_s), summarizer="object:hanging",
        chunker_processes=1,
    )  # fmt: skip
    try:
        ids = owned.remember(*(long_text(f"number{n}") for n in range(3)))
        owned.settle()
        owned.pass_time(IDLE_S)
        owned.until(lambda: status(owned).chunkers == 0)
        ids += owned.remember(long_text("later"))
        owned.settle()
        assert all(chunks(owned, each) for each in ids) and hanging.asked == 1
        found = status(owned)
        assert (found.summaries_failed, found.failed) == (4, 0)
        assert str(found.error).startswith("the summarizer object:hanging has not answered within")
        owned.pass_time(PAUSE_S_MIN)
        owned.until(lambda: status(owned).chunkers == 0)
        summary_s = 60.0  # of the next chunker: one that answers may take longer than the first
        hanging.released.set()
        owned.remember(long_text("latest"))
        owned.settle()
        assert hanging.asked == 2 and status(owned).summaries_failed == 4
    finally:
        hanging.released.set()


def test_a_summarizer_that_ends_its_process_costs_the_summary_of_that_text(owning: Owning) -> None:
    def deadly(documents: Sequence[Document]) -> None:
        if any(one.summarize and "deadly" in one.text for one in documents):
            raise Unavailable("killed", outcome="not_applied")

    owned = owning(chunkers=lambda: Scripted(deadly), summarizer="object:deadly")
    harmless, dead = owned.remember(long_text("harmless"), long_text("deadly"))
    seconds = seconds_passed(owned, lambda: bool(chunks(owned, dead)))
    assert seconds == 1 + 2  # with a summary twice, then without
    assert chunks(owned, harmless)
    assert (status(owned).summaries_failed, status(owned).failed) == (1, 0)


# ---- the parts ----------------------------------------------------------------------------------


def trial(text: str = "text") -> Trial:
    return Trial(LongText(1, 8, "id", 1, "fact", text))


def test_tries_double_their_pause_and_come_to_an_end() -> None:
    clock = ManualClock()
    tries = Tries(clock.monotonic)
    tries.alone(trial())
    assert tries.take() == trial() and tries.take() is None
    one, pauses = trial(), []
    while tries.again(one):
        due = tries.deadline()
        assert due is not None and tries.take() is None and tries.pausing == 1
        pauses.append(due - clock.now)
        clock.now = due
        found = tries.take()
        assert found is not None
        one = found
    assert pauses == [1, 2, 4, 8] and one.tries == TRIES_MAX - 1
    assert [Trial(one.one, n).summarize for n in range(4)] == [True, True, False, False]


def test_texts_that_wait_to_be_tried_again_are_bounded() -> None:
    tries = Tries(ManualClock().monotonic)
    tries.alone(trial("x" * 3_000_000))
    assert not tries.full
    tries.alone(trial("x" * 3_000_000))
    assert tries.full and len(tries) == 2


def test_the_loop_leaves_its_time_to_those_who_ask(tmp_path: Path) -> None:
    clock, woken = ManualClock(), threading.Event()
    loop = LongTermChunking(spec(tmp_path), clock, None, woken.set, lambda: None)
    done: list[int] = []

    def run(chunked: list[Deriving]) -> None:
        clock.now += 0.5
        done.extend(each.request.id for each in chunked)

    assert loop.deadline() is None
    for number in range(4):
        loop._submit(Deriving(Derive(number, "", 1, [], ""), lambda reply: None))
    assert woken.is_set()
    loop.carry_out(run)
    loop.carry_out(run)  # nobody asks for anything: at once
    assert done == [0, 1]
    loop.others_ask()
    loop.carry_out(run)
    due = loop.deadline()
    assert due == clock.now + FREE_SHARE * 0.5
    loop.carry_out(run)
    assert done == [0, 1, 2]
    assert due is not None
    clock.now = max(due, clock.now + BUSY_S)
    loop.carry_out(run)
    assert done == [0, 1, 2, 3] and loop.deadline() is None
