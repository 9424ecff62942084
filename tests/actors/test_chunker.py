"""A chunker: texts in, pieces and a summary out; what is wrong with one is said of that one."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from neverforget.actors.chunker import ENDPOINT_S, OBJECT_S, REASON_CHARACTERS_MAX, Chunker
from neverforget.actors.chunker_local import PAUSE_S_MAX, pause_after
from neverforget.actors.chunker_spec import ChunkerSpec, Document, most_of
from neverforget.actors.summarizer_contract import NotSummarized
from neverforget.runtime import summarizers
from neverforget.storage.errors import InvalidArgument
from tests.fakes.summarizers import Answering, Hanging

TEXT = "We agreed to move the launch to the second week of March, after the audit. " * 60


def made_of(summarizer: Any) -> ChunkerSpec:
    return ChunkerSpec(summarizer="object:test", make=lambda _name: summarizer)


def test_the_pieces_joined_are_the_text_and_none_is_too_long() -> None:
    (found,) = Chunker(ChunkerSpec()).chunk([Document(TEXT)])
    assert "".join(TEXT[piece.start : piece.stop] for piece in found.pieces) == TEXT
    assert max(piece.stop - piece.start for piece in found.pieces) <= 2_000
    assert (found.summary, found.summary_error, found.error) == (None, None, None)


def test_where_shorter_texts_are_cut_chunks_are_shorter() -> None:
    assert (most_of(100_000), most_of(800)) == (2_000, 800)
    (found,) = Chunker(ChunkerSpec(800)).chunk([Document(TEXT)])
    assert max(piece.stop - piece.start for piece in found.pieces) <= 800
    assert ChunkerSpec(800).target == 600


def test_a_text_that_cannot_be_cut_does_not_keep_the_others_from_it() -> None:
    def split(text: str, **how: int) -> Any:
        if text == "poison":
            raise ValueError(text)
        return [(0, len(text), "above")]

    found = Chunker(ChunkerSpec(), splitter=split).chunk(
        [Document("good"), Document("poison"), Document("better")]
    )
    assert [one.pieces for one in found] == [[(0, 4, "above")], [], [(0, 6, "above")]]
    assert found[1].error == "the text cannot be cut: ValueError"  # and nothing of the text


def test_a_summary_comes_with_the_chunks() -> None:
    chunker = Chunker(made_of(Answering("All of it.")))
    asked, not_asked = chunker.chunk([Document(TEXT), Document(TEXT, summarize=False)])
    assert (asked.summary, asked.summary_error) == ("All of it.", None)
    assert (not_asked.summary, not_asked.summary_error) == (None, None)


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_where_there_is_nothing_to_say_there_is_no_summary(nothing: str) -> None:
    (found,) = Chunker(made_of(Answering(nothing))).chunk([Document(TEXT)])
    assert (found.summary, found.summary_error) == (None, None)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ValueError("a secret of the text"), "failed: ValueError"),
        (InvalidArgument("no such model"), "no such model"),
        (
            NotSummarized("status 400 (too_long)"),
            "the summarizer object:test: status 400 (too_long)",
        ),
        (NotSummarized("x" * 1_000), "object:test: " + "x" * REASON_CHARACTERS_MAX),
        (7, "gave int instead of text"),
        (TEXT + "!", "said more than the text does"),
    ],
)
def test_a_failing_summarizer_costs_the_summary_and_never_the_chunks(
    answer: object, why: str
) -> None:
    (found,) = Chunker(made_of(Answering(answer))).chunk([Document(TEXT)])
    assert found.pieces and found.error is None
    assert found.summary is None and found.summary_error is not None and not found.silent
    assert found.summary_error.endswith(why) and "secret" not in found.summary_error


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.released.set()


def test_a_summarizer_that_hangs_is_left_behind(hanging: Hanging) -> None:
    chunker = Chunker(made_of(hanging), summary_s=0.05)
    found = chunker.chunk([Document(TEXT)] * 3)
    assert all(one.pieces for one in found)
    assert [one.summary_error for one in found] == [
        "the summarizer object:test has not answered within 0.05 s; the text was cut into chunks "
        "without a summary"
    ] * 3
    assert [one.silent for one in found] == [True] * 3
    assert hanging.entered.wait(60)
    assert hanging.asked == 1  # while it hangs nobody else is sent there
    assert sum(t.name == "neverforget-bounded" for t in threading.enumerate()) == 1


def test_what_fails_after_a_long_time_has_not_answered() -> None:
    chunker = Chunker(made_of(Answering(NotSummarized("no answer (ReadTimeout)"))), summary_s=60)
    chunker._slow_s = 0.0
    (found,) = chunker.chunk([Document(TEXT)])
    assert found.silent and str(found.summary_error).endswith("no answer (ReadTimeout)")


def test_an_object_has_half_a_minute_for_a_summary() -> None:
    assert (OBJECT_S, ENDPOINT_S) == (30, 60)
    for summarizer, bound_s in (("object:test", 30), ("extractive", 30), ("openai:m@h", 60)):
        chunker = Chunker(ChunkerSpec(summarizer=summarizer))
        assert chunker._bounded._deadline_s == bound_s


def test_inline_a_text_that_took_long_does_not_keep_the_next_as_long_again() -> None:
    """A summarizer that hung for a minute cost two."""
    assert pause_after(0.25) == 0.25 and pause_after(60) == PAUSE_S_MAX == 1


def test_a_summarizer_object_travels() -> None:
    spec = ChunkerSpec(
        summarizer="object:answering",
        pickled=pickle.dumps(Answering("Short.")),
        make=summarizers.made,
    )
    (found,) = Chunker(spec).chunk([Document(TEXT)])
    assert found.summary == "Short."


def test_a_summarizer_that_does_not_arrive_costs_the_summary_only() -> None:
    spec = ChunkerSpec(summarizer="object:broken", pickled=b"broken", make=summarizers.made)
    (found,) = Chunker(spec).chunk([Document(TEXT)])
    assert found.pieces and "cannot be loaded in its own process" in str(found.summary_error)
    (found,) = Chunker(spec._replace(pickled=None)).chunk([Document(TEXT)])
    assert found.pieces and "was not given that object" in str(found.summary_error)


def test_a_name_says_which_summarizer_is_meant() -> None:
    spec = ChunkerSpec(summarizer="extractive", make=summarizers.made)
    (found,) = Chunker(spec).chunk([Document(TEXT)])
    assert found.summary and found.summary_error is None
