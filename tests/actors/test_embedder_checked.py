"""The checking wrapper: no answer that breaks the contract is passed on, and no text blamed
wrongly.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from neverforget.actors.embedder_checked import HARMLESS, CheckedEmbedder
from neverforget.actors.embedder_contract import Embedder, Vectors
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.storage.errors import InvalidArgument, Unavailable
from tests.fakes.embedders import FAILURES, POISON, Answering, Hanging, Plain, Poisoned, raises

TEXTS = [f"text number {n}" for n in range(100)]


@pytest.mark.parametrize("fail", FAILURES, ids=lambda f: f.__name__)
def test_one_poisoned_text_of_a_hundred_is_reported_and_the_others_embedded(
    fail: Callable[[Vectors, list[int]], Any],
) -> None:
    """Scenario 32: one bad text made a whole batch wait for ever."""
    inner = Poisoned(fail)
    found = CheckedEmbedder(inner).embed_all([*TEXTS[:37], f"a {POISON} text", *TEXTS[37:99]])
    assert list(found.failed) == [37]
    assert found.owners.tolist() == [n for n in range(100) if n != 37]
    assert np.array_equal(found.vectors, HashEmbedder(8).embed(TEXTS[:99]))
    assert len(inner.asked) < 30  # found by halving, not one by one


def test_several_poisoned_texts_are_each_found() -> None:
    texts = [f"{POISON} {t}" if n % 10 == 3 else t for n, t in enumerate(TEXTS)]
    found = CheckedEmbedder(Poisoned(raises)).embed_all(texts)
    assert list(found.failed) == list(range(3, 100, 10))
    assert len(found.vectors) == 90


def test_a_reason_names_the_kind_and_never_quotes_the_text() -> None:
    """Reasons are kept with the store; a text that is erased must not live on in one."""
    found = CheckedEmbedder(Poisoned(raises)).embed_all([POISON])
    assert found.failed == {0: "ValueError"} and found.waiting == {}
    assert found.vectors.shape == (0, 8)
    with pytest.raises(InvalidArgument, match=r"^text 1 cannot be embedded: ValueError$"):
        CheckedEmbedder(Poisoned(raises)).embed(["fine", POISON])


REFUSALS = [ConnectionRefusedError(111, "refused"), TimeoutError("late"), Unavailable("down")]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_an_embedder_that_cannot_be_reached_is_not_asked_for_each_text(error: OSError) -> None:
    def fail(rows: Vectors) -> Any:
        raise error

    inner = Answering(fail)
    with pytest.raises(Unavailable):
        CheckedEmbedder(inner).embed_all(TEXTS)
    assert [len(asked) for asked in inner.asked] == [32, 1]
    with pytest.raises(Unavailable):
        CheckedEmbedder(inner).query("a question waits for nobody")
    assert len(inner.asked) == 3


def test_a_text_that_alone_gets_no_answer_waits_and_keeps_nobody_waiting() -> None:
    """It may be the text, or chance: it is not blamed, and the others get their vectors."""

    def refuse(rows: Vectors, poisoned: list[int]) -> Any:
        raise ConnectionResetError(104, "Connection reset by peer")

    texts = [*TEXTS[:50], POISON, *TEXTS[51:]]
    found = CheckedEmbedder(Poisoned(refuse)).embed_all(texts)
    assert found.failed == {} and list(found.waiting) == [50]
    assert "Connection reset by peer (ConnectionResetError)" in found.waiting[50]
    assert found.owners.tolist() == [n for n in range(100) if n != 50]


def test_an_embedder_that_fails_with_a_harmless_text_too_is_down_and_no_text_is_blamed() -> None:
    def fail(rows: Vectors) -> Any:
        raise RuntimeError("out of memory")

    inner = Answering(fail)
    with pytest.raises(Unavailable, match=r"out of memory \(RuntimeError\)") as caught:
        CheckedEmbedder(inner).embed_all(TEXTS)
    assert caught.value.outcome == "not_applied"
    assert [len(asked) for asked in inner.asked] == [32, 1]
    assert inner.asked[1] == [HARMLESS]


class GoingDown(Plain):
    """Answers ``calls`` times, then no more."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def embed(self, texts: Sequence[str]) -> Any:
        if len(self.asked) >= self.calls:
            raise RuntimeError("gone")
        return super().embed(texts)


def test_what_went_before_the_embedder_went_down_is_kept_and_the_rest_waits() -> None:
    found = CheckedEmbedder(GoingDown(2)).embed_all(TEXTS)
    assert found.owners.tolist() == list(range(64))
    assert found.failed == {} and list(found.waiting) == list(range(64, 100))
    assert "gone" in found.waiting[99]


def test_an_embedder_that_goes_down_while_a_text_is_searched_blames_none() -> None:
    class Poor(GoingDown):
        def embed(self, texts: Sequence[str]) -> Any:
            rows = super().embed(texts)
            if len(texts) > 1:
                raise ValueError("too many")
            return rows

    for calls in range(1, 20):
        inner = Poor(calls)
        try:
            found = CheckedEmbedder(inner).embed_all(TEXTS[:8])
        except Unavailable:
            continue
        assert found.failed == {}
        assert sorted({*found.owners.tolist(), *found.waiting}) == list(range(8))


def test_texts_are_not_blamed_for_what_cannot_cut_any_text() -> None:
    class Damaged(Plain):
        def windows(self, text: str) -> list[str]:
            raise OSError("vocabulary damaged")

        def embed(self, texts: Sequence[str]) -> Any:
            return self.windows(texts[0])

    with pytest.raises(Unavailable, match="vocabulary damaged"):
        CheckedEmbedder(Damaged()).embed_all(TEXTS)


WRONG: dict[str, Callable[[Vectors], Any]] = {
    "rows": lambda rows: rows[:0],
    "dimension": lambda rows: rows[:, :4],
    "flat": lambda rows: rows.ravel(),
    "nan": lambda rows: rows * np.nan,
    "zero": lambda rows: rows * 0,
    "words": lambda rows: [["a"] * 8] * len(rows),
    "booleans": lambda rows: rows > 0,
    "complex": lambda rows: rows.astype(np.complex64),
    "none": lambda rows: None,
    "generator": lambda rows: (row for row in rows),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_is_always_wrong_is_never_passed_on(name: str) -> None:
    checked = CheckedEmbedder(Answering(WRONG[name]))
    with pytest.raises(Unavailable):
        checked.embed_all(["one", "two"])
    with pytest.raises(Unavailable):
        checked.query("one")


RIGHT: dict[str, Callable[[Vectors], Any]] = {
    "float64": lambda rows: rows.astype(np.float64),
    "float16": lambda rows: rows.astype(np.float16),
    "lists": lambda rows: rows.tolist(),
    "list of rows": list,
    "long": lambda rows: rows * 1e30,
    "longer than float32": lambda rows: rows.astype(np.float64) * 1e200,
    "short": lambda rows: rows.astype(np.float64) * 1e-9,
    "transposed in memory": np.asfortranarray,
    "read-only": lambda rows: np.frombuffer(rows.tobytes(), np.float32).reshape(rows.shape),
}


@pytest.mark.parametrize("name", RIGHT)
def test_numbers_of_any_kind_become_float32_rows_of_length_one(name: str) -> None:
    found = CheckedEmbedder(Answering(RIGHT[name])).embed_all(TEXTS[:5])
    assert found.failed == {}
    assert found.vectors.dtype == np.float32 and found.vectors.flags.c_contiguous
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-6)
    assert np.allclose(found.vectors, HashEmbedder(8).embed(TEXTS[:5]), atol=2e-3)


def test_whole_numbers_are_numbers() -> None:
    found = CheckedEmbedder(Answering(lambda rows: np.ones(rows.shape, int))).embed(["a"])
    assert np.allclose(found, 1 / np.sqrt(8))


# ---- hanging -------------------------------------------------------------------------------------


def test_an_embedder_that_hangs_is_given_up_and_taken_again_when_it_comes_back() -> None:
    inner = Hanging()
    checked = CheckedEmbedder(inner, deadline_s=0.05)
    with pytest.raises(Unavailable, match="not answered within"):
        checked.embed_all(["a"])
    threads = threading.active_count()
    for _ in range(20):  # no thread is added for each attempt
        with pytest.raises(Unavailable, match="not answered within"):
            checked.embed_all(["a"])
    assert threading.active_count() == threads
    (hanging,) = (t for t in threading.enumerate() if t.name == "neverforget-bounded")
    inner.release.set()
    hanging.join()
    checked._bounded._deadline_s = 60.0
    assert checked.embed_all(["a"]).failed == {}


def test_an_embedder_that_is_not_thread_safe_is_called_by_one_thread_at_a_time() -> None:
    inner = Hanging()
    checked = CheckedEmbedder(inner, deadline_s=30)
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.append(len(checked.embed(["a"])))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert inner.entered.wait(60)
    assert inner.asked == []
    assert sum(t.name == "neverforget-bounded" for t in threading.enumerate()) == 1
    inner.release.set()
    for thread in threads:
        thread.join()
    assert done == [1, 1, 1, 1]


def test_a_thread_safe_embedder_is_called_by_several_threads_at_once() -> None:
    meeting = threading.Barrier(2, timeout=60)

    class Meeting(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            meeting.wait()
            return super().embed(texts)

    checked = CheckedEmbedder(Meeting())
    other = threading.Thread(target=checked.embed, args=(["a"],))
    other.start()
    assert checked.embed(["b"]).shape == (1, 64)
    other.join()


# ---- windows, batches, the rest ------------------------------------------------------------------


def test_a_long_text_owns_several_vectors() -> None:
    checked = CheckedEmbedder(HashEmbedder(words_max=10))
    long = " ".join(f"w{n}" for n in range(100))
    found = checked.embed_all(["short", long, "also short"])
    count = len(checked.windows(long))
    assert count > 10
    assert found.owners.tolist() == [0, *[1] * count, 2]
    assert len(found.vectors) == count + 2


def test_a_long_text_of_which_a_window_fails_keeps_the_others_and_is_reported() -> None:
    class Cut(Poisoned):
        def windows(self, text: str) -> list[str]:
            return text.split()

    found = CheckedEmbedder(Cut(raises)).embed_all(["one two", f"three {POISON} five", "six"])
    assert found.failed == {1: "ValueError"}
    assert found.owners.tolist() == [0, 0, 1, 1, 2]


def test_a_text_that_cannot_be_cut_is_reported() -> None:
    class Uncut(Plain):
        def windows(self, text: str) -> list[str]:
            if text == "b":
                raise RecursionError(text)
            return [text]

    found = CheckedEmbedder(Uncut()).embed_all(["a", "b"])
    assert found.failed == {1: "cannot be cut into windows (RecursionError)"}
    assert found.owners.tolist() == [0]


def test_a_text_that_is_cut_into_nothing_is_brought_whole() -> None:
    """Whoever brought it waited for the vectors of no window, and its whole batch with it."""

    class Nothing(Plain):
        def windows(self, text: str) -> list[str]:
            return text.split()

    checked = CheckedEmbedder(Nothing())
    assert checked.windows("  ") == ["  "]
    found = checked.embed_all(["a", "  ", "b"])
    assert {*found.owners.tolist(), *found.failed} == {0, 1, 2}


def test_no_call_brings_more_texts_than_the_embedder_takes() -> None:
    class Few(Plain):
        batch_texts_max = 7

    inner = Few()
    assert len(CheckedEmbedder(inner).embed(TEXTS)) == 100
    assert max(map(len, inner.asked)) == 7
    assert sum(map(len, inner.asked)) == 100


def test_no_texts_no_vectors() -> None:
    checked = CheckedEmbedder(Plain())
    assert checked.embed([]).shape == (0, 8)
    found = checked.embed_all([])
    assert (found.vectors.shape, found.owners.shape, found.failed) == ((0, 8), (0,), {})


def test_a_long_query_is_the_mean_of_its_windows() -> None:
    checked = CheckedEmbedder(HashEmbedder(words_max=10))
    short, long = "w1 w2 w3", " ".join(f"w{n}" for n in range(100))
    assert np.array_equal(checked.query(short), checked.embed([short])[0])
    query = checked.query(long)
    assert query.shape == (64,) and query.dtype == np.float32
    assert abs(float(np.linalg.norm(query)) - 1) < 1e-6
    mean = checked.embed(checked.windows(long)).mean(axis=0)
    assert np.allclose(query, mean / np.linalg.norm(mean), atol=1e-6)


def test_windows_that_cancel_each_other_out_still_make_a_query() -> None:
    class Opposite(Answering):
        def windows(self, text: str) -> list[str]:
            return ["plus", "minus"]

    ones = np.ones((1, 8), np.float32)
    checked = CheckedEmbedder(Opposite(lambda rows: np.vstack([ones, -ones])))
    assert np.allclose(checked.query("x"), 1 / np.sqrt(8))


def test_it_pickles_with_the_embedder_inside() -> None:
    checked = CheckedEmbedder(Poisoned(raises), deadline_s=7)
    copy: CheckedEmbedder = pickle.loads(pickle.dumps(checked))
    assert copy.deadline_s == 7 and isinstance(copy.inner, Poisoned)
    assert np.array_equal(copy.embed(["a"]), checked.embed(["a"]))
    assert repr(CheckedEmbedder(HashEmbedder())).startswith("CheckedEmbedder(HashEmbedder(")


def test_closing_closes_the_embedder_inside() -> None:
    class Closing(Plain):
        closed = False

        def close(self) -> None:
            self.closed = True

    inner = Closing()
    CheckedEmbedder(inner).close()
    assert inner.closed
    CheckedEmbedder(Plain()).close()


@pytest.mark.parametrize("model_id", ["", None, 7, "x" * 513])
def test_a_model_without_a_proper_name_is_refused(model_id: Any) -> None:
    inner = Plain()
    inner.model_id = model_id
    with pytest.raises(InvalidArgument, match="model_id"):
        CheckedEmbedder(inner)


@pytest.mark.parametrize("dimension", [0, -1, 1.5, "8", None, True, 65_537])
def test_a_dimension_that_is_none_is_refused(dimension: Any) -> None:
    inner = Plain()
    inner.dimension = dimension
    with pytest.raises(InvalidArgument, match="dimension"):
        _ = CheckedEmbedder(inner).dimension


def test_the_protocol_describes_what_is_there() -> None:
    for embedder in (Plain(), HashEmbedder(), CheckedEmbedder(Plain())):
        assert isinstance(embedder, Embedder)
