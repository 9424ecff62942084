"""A summarizer that does not answer is left alone, longer each time; what it is asked for else."""

from __future__ import annotations

from neverforget.actors.chunker_spec import Chunked
from neverforget.actors.chunking_tries import SUMMARY_TRIES, Trial
from neverforget.actors.summaries import PAUSE_S_MAX, PAUSE_S_MIN, TOGETHER, Summaries
from neverforget.storage.longterm_unchunked import LongText
from tests.actors.regions import ManualClock

TRIAL = Trial(LongText(1, 8, "id", 1, "fact", "text"))
SUMMARISED = Chunked([], summary="short")
SILENT = Chunked([], summary_error="no answer", silent=True)


def asks(summaries: Summaries) -> bool:
    (trial,) = summaries.asked_of([TRIAL])
    return trial.summarize


def test_pauses_double_and_one_text_is_tried_after_each() -> None:
    clock = ManualClock()
    summaries = Summaries("object:test", clock.monotonic)
    assert asks(summaries) and asks(summaries)
    assert summaries.seen(TRIAL, SILENT) == "no answer"
    pauses = []
    for _ in range(6):
        assert summaries.seen(TRIAL, SILENT) == "no answer", "another one had waited as well"
        begun = clock.now
        while not asks(summaries):
            clock.now += PAUSE_S_MIN
        pauses.append(clock.now - begun)
        assert not asks(summaries), "one is enough to find out"
    assert pauses == [60, 120, 240, 480, PAUSE_S_MAX, PAUSE_S_MAX]
    assert summaries.seen(TRIAL, SUMMARISED) is None
    assert asks(summaries) and asks(summaries)


def test_what_says_no_is_asked_again() -> None:
    summaries = Summaries("object:test", ManualClock().monotonic)
    assert summaries.seen(TRIAL, Chunked([], summary_error="refused")) == "refused"
    assert asks(summaries)
    assert summaries.seen(TRIAL, Chunked([])) is None, "there was nothing to say"
    assert summaries.failed == 1


def test_each_text_without_its_summary_is_counted_with_the_reason() -> None:
    clock = ManualClock()
    summaries = Summaries("object:test", clock.monotonic)
    summaries.seen(TRIAL, SILENT)
    (unasked,) = summaries.asked_of([TRIAL])
    assert summaries.seen(unasked, Chunked([])) == "no answer"
    tried = TRIAL._replace(tries=SUMMARY_TRIES)
    assert summaries.seen(tried, Chunked([])) == "memory id: no summary was tried"
    assert summaries.failed == 3
    clock.now += PAUSE_S_MIN
    assert summaries.asked_of([tried]) == [tried] and asks(summaries), "it was no try"


def test_only_those_that_answer_at_once_get_texts_together() -> None:
    monotonic = ManualClock().monotonic
    names = ("none", "extractive", "openai:m@http://h/v1", "object:test")
    assert [Summaries(n, monotonic).together for n in names] == [TOGETHER, TOGETHER, 1, 1]
    nothing = Summaries("none", monotonic)
    assert not nothing.wanted and nothing.seen(TRIAL, Chunked([])) is None and not nothing.failed
