"""What broke in other memory systems when they summed up what was said, asked of a whole store in
this process. Each test is a scenario of the field reports; more of each stands at a lower level:

    33  a range that is reflected ten times    actors/test_reflector.py, and here;
        and killed                             actors/test_reflector_window.py
    34  an extractor that always raises        actors/test_reflector_failing.py, and here
    35  the evidence before and after          actors/test_reflector.py, and here
    36  the budget of a working memory         runtime/test_working_memory.py,
                                               storage/test_working_machine.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import neverforget as nf
from neverforget.actors import reflector_pauses
from tests.fakes.extractors import Failing

SAID = (
    "I moved to Bergen last week",
    "Great, thanks!",
    "My sister Ida is a nurse in Oslo",
    "I decided to sell the boat",
    "lol ok",
    "The deadline is 9 March 2027",
)


def said(chat: nf.Session, times: int = 1) -> list[nf.Turn]:
    for number in range(times):
        chat.append_many(
            {"role": "user", "name": "ada", "content": f"{text}, {number}"} for text in SAID
        )
    return list(chat)


def test_33_a_range_that_is_reflected_ten_times_is_remembered_once(nf_store: nf.Store) -> None:
    chat = nf_store.session("chat")
    said(chat)
    first = nf_store.reflect(chat)
    before = list(nf_store.memories())
    assert first.facts == len(before) > 0
    for again in (False, True) * 5:
        assert nf_store.reflect(chat, again=again).facts == 0
    assert list(nf_store.memories()) == before


def test_34_an_extractor_that_always_raises_costs_no_turn_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.01)
    with nf.testing.store(tmp_path / "s", extractor=Failing()) as store:
        chat = store.session("chat")
        turns = said(chat, 10)
        failed = store.reflect(chat).failed
        assert (failed[0].first, failed[-1].last) == (0, len(turns) - 1)
        assert store.status().reflection.failures == len(failed)
        assert list(chat) == turns and chat.info().consolidated_through == 0
        assert list(store.memories()) == []
        for max_tokens in (100, 400, 2_000):
            context = store.working_memory("ada").context(conversation=chat, max_tokens=max_tokens)
            assert context.tokens <= max_tokens
            assert context.turns[-1] == turns[-1]


def test_35_what_was_said_is_all_there_after_it_was_reflected(nf_store: nf.Store) -> None:
    chat = nf_store.session("chat")
    turns = said(chat)
    assert nf_store.reflect(chat).turns == len(turns)
    assert [(turn.seq, turn.content) for turn in chat] == [(t.seq, t.content) for t in turns]
    by_seq = {turn.seq: turn for turn in turns}
    evidence = {
        seq
        for memory in nf_store.memories()
        for ref in nf_store.provenance(memory.id)
        for seq in range(ref.first, ref.last + 1)
    }
    assert {0, 2, 3, 5} <= evidence <= by_seq.keys()
