"""Whatever the embedder does: what was acknowledged is found by words, what waits is counted, its
vectors appear by themselves when the embedder is back, and nothing is made up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from neverforget.actors import embedder_line
from neverforget.actors import longterm_messages as m
from neverforget.actors.embedder_contract import Vectors
from neverforget.actors.embedder_health import PAUSE_S_MAX
from neverforget.actors.embedding import LocalEmbedding
from neverforget.actors.longterm import LongTerm
from neverforget.actors.messages import Settle
from neverforget.storage.embedder_file import read_embedder
from neverforget.storage.errors import NotFound
from neverforget.storage.filesystem import LocalFileSystem
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm, create, hits, spec
from tests.actors.regions import ManualClock
from tests.fakes.embedders import (
    FAILURES,
    POISON,
    Faulty,
    Hanging,
    Plain,
    Poisoned,
    is_down,
)

Fault = Callable[[Vectors], Any]


def a_row_too_few(rows: Vectors) -> Any:
    return rows[:-1]


def nan(rows: Vectors) -> Any:
    return np.full_like(rows, np.nan)


def zero(rows: Vectors) -> Any:
    return np.zeros_like(rows)


def another_dimension(rows: Vectors) -> Any:
    return np.hstack([rows, rows])


def an_error(rows: Vectors) -> Any:
    raise RuntimeError("of the model")


OUTAGES: list[Fault] = [is_down, a_row_too_few, nan, zero, another_dimension, an_error]
outages = pytest.mark.parametrize("fault", OUTAGES, ids=lambda fault: fault.__name__)


def is_failing(owned: OwnedLongTerm) -> bool:
    index = owned.index()
    return index.embedder_state == "failing"


def come_back(owned: OwnedLongTerm, embedder: Faulty) -> None:
    """The fault is over, and the longest pause too."""
    embedder.fault = None
    owned.pass_time(PAUSE_S_MAX + 1)
    owned.settle()


def by_meaning(owned: OwnedLongTerm, query: str) -> list[str]:
    return owned.found(query, strategy="vector")


@outages
def test_an_outage_from_the_beginning(owning: Owning, fault: Fault) -> None:
    embedder = Faulty()
    embedder.fault = fault
    owned = owning(embedder)
    owned.remember("green tea", "a meeting")
    owned.until(lambda: is_failing(owned) and owned.index().waiting == 2)
    reply = owned.recall("tea")
    assert [hit.memory.text for hit in hits(reply)] == ["green tea"]
    assert (reply.complete, reply.pending) == (False, 2)
    assert reply.reason is not None and "words only" in reply.reason
    assert owned.refused(owned.recall_request("tea", strategy="vector")) == "unavailable"
    index = owned.index()
    assert (index.waiting, index.failed, index.vectors, index.lag) == (2, 0, 0, 0)
    assert index.embedder_error

    come_back(owned, embedder)
    assert by_meaning(owned, "tea")[0] == "green tea"
    index = owned.index()
    assert (index.embedder_state, index.embedder_error) == ("ok", None)
    assert (index.waiting, index.failed, index.vectors) == (0, 0, 2)


@outages
def test_an_outage_in_the_middle(owning: Owning, fault: Fault) -> None:
    embedder = Faulty()
    owned = owning(embedder)
    owned.remember("before it")
    owned.settle()
    embedder.fault = fault
    owned.remember("during it")
    owned.until(lambda: is_failing(owned))
    reply = owned.recall("it", strategy="hybrid")
    assert sorted(hit.memory.text for hit in hits(reply)) == ["before it", "during it"]
    assert (reply.complete, reply.pending) == (False, 1)
    assert owned.index().vectors == 1
    come_back(owned, embedder)
    owned.remember("after it")
    assert sorted(by_meaning(owned, "it")) == ["after it", "before it", "during it"]


def test_it_is_asked_again_after_pauses_that_grow(owning: Owning) -> None:
    embedder = Faulty()
    owned = owning(embedder)
    owned.remember("first")
    owned.settle()
    embedder.fault = is_down
    owned.remember("second")
    owned.until(lambda: is_failing(owned))
    health = owned.owner.indexing.embedder.health if owned.owner.indexing else None
    assert health is not None
    pauses = []
    for _ in range(9):
        due = health.retry_at
        assert due is not None
        pauses.append(due - owned.clock.now)
        owned.pass_time(pauses[-1])
        owned.until(lambda: health.retry_at is not None)
    assert 0.25 <= pauses[0] <= 0.5
    assert pauses[5] > pauses[0] * 8
    assert pauses[-1] <= PAUSE_S_MAX
    come_back(owned, embedder)


def test_one_that_hangs_holds_up_neither_words_nor_the_end(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder_line, "_END_S", 0.05)  # it waits in vain
    embedder = Hanging()
    owned = owning(embedder)
    try:
        owned.remember("green tea")
        owned.pass_time(0.01)
        assert embedder.entered.wait(20)
        assert owned.found("tea", strategy="text") == ["green tea"]
        waiting = owned.start(owned.recall_request("tea", wait_ms=5_000))
        owned.pass_time(5.1)
        owned.until(lambda: bool(waiting[0].replies))
        reply = waiting[0].answer
        assert hits(reply)[0].memory.text == "green tea"  # type: ignore[arg-type]
        assert not reply.complete  # type: ignore[union-attr]
        owned.owner.close()
    finally:
        embedder.release.set()


def test_one_that_hung_and_came_back_is_used_again(owning: Owning) -> None:
    embedder = Hanging()
    owned = owning(embedder, deadline_s=0.05)
    try:
        owned.remember("green tea")
        owned.until(lambda: is_failing(owned))
        assert owned.found("tea") == ["green tea"]
    finally:
        embedder.release.set()

    # The thread that hung ends some time after; until then it says that it hangs. And a busy
    # machine may take longer than it is given, now and then.
    def works() -> bool:
        owned.pass_time(PAUSE_S_MAX + 1)
        reply = owned.recall("tea")
        assert [hit.memory.text for hit in hits(reply)] == ["green tea"]
        return reply.complete and owned.index().vectors == 1

    owned.until(works)


@pytest.mark.parametrize("fail", FAILURES, ids=lambda fail: fail.__name__)
def test_one_poison_text_stops_nobody_else(
    owning: Owning, fail: Callable[[Vectors, list[int]], Any]
) -> None:
    owned = owning(Poisoned(fail))
    texts = [f"good number {n}" for n in range(10)]
    owned.remember(*texts[:5], f"{POISON} in the middle", *texts[5:])
    owned.settle()
    index = owned.index()
    assert (index.vectors, index.waiting, index.failed) == (10, 0, 1)
    assert index.embedder_state == "ok"
    assert sorted(by_meaning(owned, "good number")) == texts
    assert owned.found(POISON, strategy="text") == [f"{POISON} in the middle"]
    owned.remember("another good one")
    assert "another good one" in by_meaning(owned, "another good one")


class Picky(Plain):
    """Gives no answer at all to texts with POISON, as if it had gone away."""

    def embed(self, texts: Sequence[str]) -> Any:
        if any(POISON in text for text in texts):
            raise TimeoutError("no answer")
        return super().embed(texts)


def test_a_text_that_never_gets_an_answer_is_given_up_after_some_tries(owning: Owning) -> None:
    owned = owning(Picky())
    owned.remember("good", POISON, "better")

    def done() -> bool:
        owned.pass_time(PAUSE_S_MAX + 1)
        return owned.index().failed == 1

    owned.until(done)
    assert owned.index().vectors == 2
    assert owned.found(POISON, strategy="text") == [POISON]
    owned.settle()


def test_a_poison_query_is_refused_by_meaning_and_answered_by_words(owning: Owning) -> None:
    owned = owning(Poisoned(FAILURES[0]))
    owned.remember("good")
    owned.settle()
    request = owned.recall_request(f"{POISON} good", strategy="vector")
    assert owned.refused(request) == "invalid_argument"
    reply = owned.recall(f"{POISON} good")
    assert [hit.memory.text for hit in hits(reply)] == ["good"]
    assert not reply.complete
    assert owned.index().embedder_state == "ok"


def test_a_failed_memory_has_another_chance_when_it_is_revised(owning: Owning) -> None:
    owned = owning(Poisoned(FAILURES[0]))
    (memory,) = owned.remember(f"{POISON} text")
    owned.settle()
    assert owned.index().failed == 1
    owned.ask(owned.revise(memory, text="harmless text"), m.MemoriesReply)
    owned.settle()
    index = owned.index()
    assert (index.failed, index.vectors) == (0, 1)


def test_no_reason_tells_of_a_text(owning: Owning) -> None:
    """What is erased must not live on in a status."""
    owned = owning(Poisoned(FAILURES[0]))
    owned.remember(f"{POISON} and a secret")
    owned.settle()
    assert "secret" not in str(owned.status())
    (finding,) = owned.index().findings
    assert finding.kind == "not_embedded" and "ValueError" in finding.message


def test_the_store_learns_its_model_when_the_embedder_first_answers(owning: Owning) -> None:
    embedder = Late()
    owned = owning(embedder)
    owned.remember("green tea")
    owned.until(lambda: is_failing(owned) and owned.index().waiting == 1)
    assert owned.index().model is None
    assert owned.found("tea") == ["green tea"]
    embedder.up = True
    owned.pass_time(PAUSE_S_MAX + 1)
    owned.settle()
    assert by_meaning(owned, "tea") == ["green tea"]
    index = owned.index()
    assert (index.model, index.dimension, index.vectors) == ("late", 8, 1)
    held = read_embedder(LocalFileSystem(), owned.directory)
    assert (held.model, held.dimension) == ("late", 8)
    owned.owner.close()
    # From then on its vectors are there, whether it answers or not.
    again = owning(Late())
    assert again.index().vectors == 1
    assert again.found("tea") == ["green tea"]


class Late:
    """Knows its dimension only when it is up."""

    model_id = "late"

    def __init__(self) -> None:
        self.up = False

    @property
    def dimension(self) -> int:
        if not self.up:
            raise ConnectionError("not yet")
        return 8

    def embed(self, texts: Sequence[str]) -> Any:
        return Plain(self.dimension).embed(texts)


def test_another_model_under_the_same_name_adds_nothing(owning: Owning) -> None:
    """Its vectors would be compared with those of the former."""
    owned = owning(Plain(8))
    owned.remember("green tea")
    owned.settle()
    owned.owner.close()
    other = owning(Plain(16))
    other.remember("black tea")
    other.until(lambda: is_failing(other) and other.index().waiting == 1)
    index = other.index()
    assert (index.dimension, index.vectors, index.waiting) == (8, 1, 1)
    assert index.embedder_error is not None and "reindex" in index.embedder_error
    assert sorted(other.found("tea")) == ["black tea", "green tea"]
    other.owner.close()
    back = owning(Plain(8))
    back.settle()
    assert sorted(by_meaning(back, "tea")) == ["black tea", "green tea"]


def test_an_object_that_nobody_passed_leaves_words(tmp_path: Any) -> None:
    def make(name: str) -> Any:
        raise NotFound(f"{name} is an object; pass it to open")

    directory = create(tmp_path / "0")
    owner = LongTerm(spec(directory, embedder="object:x"), LocalEmbedding(make), lock=False)
    owned = OwnedLongTerm(owner, ManualClock())
    owner.open()
    owned.remember("green tea")
    owned.until(lambda: owned.status().index is not None)
    owned.until(lambda: owned.index().embedder_state == "missing")
    reply = owned.recall("tea")
    assert [hit.memory.text for hit in hits(reply)] == ["green tea"]
    assert not reply.complete and reply.reason is not None and "pass it" in reply.reason
    assert owned.refused(owned.recall_request("tea", strategy="vector")) == "unavailable"
    (settled,) = owned.start(Settle(1))  # nobody will ever embed here
    owned.until(lambda: bool(settled.replies))
    owner.close()


def test_a_store_without_an_embedder_has_words_and_is_complete(owning: Owning) -> None:
    owned = owning("none")
    owned.remember("green tea")
    reply = owned.recall("tea")
    assert [hit.memory.text for hit in hits(reply)] == ["green tea"]
    assert (reply.complete, reply.pending) == (True, 0)
    assert owned.refused(owned.recall_request("tea", strategy="vector")) == "invalid_argument"
    assert owned.index().embedder_state == "none"


def test_names_are_not_embedded(owning: Owning) -> None:
    """A speaker's name says who, and would draw every question about her to whatever names her."""
    embedder = Plain()
    owned = owning(embedder)
    owned.remember("Caroline: I like tea", speaker="Caroline", namespace=("a",))
    owned.remember("Caroline is a place in Texas", namespace=("b",))
    owned.settle()
    owned.found("what does Caroline drink?", namespace=("a",))
    asked = {text for batch in embedder.asked for text in batch}
    assert ": I like tea" in asked
    assert "Caroline is a place in Texas" in asked
    assert "what does drink?" in asked


def test_the_vector_of_a_query_is_asked_for_once(owning: Owning) -> None:
    embedder = Plain()
    owned = owning(embedder)
    owned.remember("green tea")
    owned.settle()
    for _ in range(3):
        owned.found("tea")
    assert [batch for batch in embedder.asked if batch == ["tea"]] == [["tea"]]


def test_two_queries_at_once_are_answered_each_its_own(owning: Owning) -> None:
    owned = owning(Plain())
    owned.remember("green tea", "black coffee", "red wine")
    owned.settle()
    queries = ["tea", "coffee", "wine"]
    asked = owned.start(
        *(owned.recall_request(query, strategy="vector", limit=1) for query in queries)
    )
    owned.until(lambda: all(one.replies for one in asked))
    found = [hits(one.answer)[0].memory.text for one in asked]  # type: ignore[arg-type]
    assert found == ["green tea", "black coffee", "red wine"]


def test_threads_of_the_owner_end_with_it(owning: Owning) -> None:
    owned = owning(Plain())
    owned.remember("green tea")
    owned.found("tea")
    owned.owner.close()
    left = [t.name for t in threading.enumerate() if t.name.startswith("neverforget-")]
    assert [name for name in left if "embed" not in name] == []


def test_an_embedder_that_nobody_needs_is_not_asked(owning: Owning) -> None:
    """Opening a store to look something up must not load a model."""
    owned = owning(Plain())
    owned.remember("green tea")
    owned.settle()
    owned.owner.close()
    embedder = Late()
    embedder.up = True
    again = owning(embedder)
    assert again.found("tea", strategy="text") == ["green tea"]
    indexing = again.owner.indexing
    assert indexing is not None and not indexing.embedder.known
