"""Contexts of real conversations: what is in them, and that they never exceed their budget."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.tokenizers import estimate
from neverforget.runtime.context_budget import cost_of
from neverforget.runtime.context_messages import message_tokens
from neverforget.runtime.context_text import turn_line
from neverforget.runtime.working_values import Context, WorkingItem
from tests.runtime.context_parts import DAY, NOW, assembled, item, turn

WORDS = ["parcel", "launch", "Oslo", "bicycle", "Tuesday", "harbour", "small", "green", "review"]
WORDS += ["milk", "4711", "ferry"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.testing.store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def chat(store: nf.Store) -> nf.Session:
    return store.session("chat", agent="ada")


def told(chat: nf.Session, count: int) -> nf.Session:
    """``count`` turns of a talk, one an hour."""
    chat.append_many(
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"Turn {n} is about the {WORDS[n % len(WORDS)]} of that day.",
            "timestamp": NOW + n * DAY / 24,
        }
        for n in range(count)
    )
    return chat


def facts(count: int) -> list[WorkingItem]:
    return [item(f"Fact {n} says that the {WORDS[n % 12]} is there", n) for n in range(count)]


def sent(made: Context) -> int:
    return sum(message_tokens(message, estimate) for message in made.messages())


def test_all_of_it_where_there_is_room(store: nf.Store, chat: nf.Session) -> None:
    made = assembled(store, facts(3), 10_000, told(chat, 30))
    assert len(made.items) == 3 and [turn.seq for turn in made.turns] == list(range(30))
    assert made.summary is None and made.left_out == type(made.left_out)(0, 0)
    assert made.tokens == estimate(str(made)) < 10_000
    text = str(made)
    assert text.index("<recalled-memories>") < text.index("Fact 0") < text.index("Turn 0 ")
    first, *turns = made.messages()
    assert first["role"] == "system" and "Fact 2" in first["content"] and len(turns) == 30


def test_an_empty_one_is_empty(store: nf.Store, chat: nf.Session) -> None:
    for conversation in (None, chat):
        made = assembled(store, [], 100, conversation)
        assert (str(made), made.messages(), made.tokens, made.items) == ("", [], 0, ())


def test_the_newest_turns_get_half_the_memories_the_rest(store: nf.Store, chat: nf.Session) -> None:
    made = assembled(store, facts(100), 1_000, told(chat, 100))
    turns = sum(estimate(f"user: {turn.content}") for turn in made.turns)
    assert 350 <= turns <= 550 and made.turns[-1].seq == 99
    assert 300 <= sum(each.tokens for each in made.items) <= 450
    assert made.summary is not None and estimate(made.summary) <= 100
    assert made.summary.startswith(f"{made.left_out.turns} earlier turns.\n")
    assert made.left_out == type(made.left_out)(100 - len(made.items), made.turns[0].seq)


def test_what_one_side_does_not_use_goes_to_the_other(store: nf.Store, chat: nf.Session) -> None:
    few_turns = assembled(store, facts(100), 1_000, told(chat, 4))
    assert len(few_turns.turns) == 4 and few_turns.summary is None
    assert sum(each.tokens for each in few_turns.items) > 750
    few_facts = assembled(store, facts(2), 1_000, told(store.session("long"), 100))
    assert len(few_facts.items) == 2
    assert sum(estimate(f"user: {turn.content}") for turn in few_facts.turns) > 700


def test_small_memories_come_in_behind_one_that_does_not_fit(store: nf.Store) -> None:
    items = [item("word " * 500, 1, importance=9), *facts(3)]
    made = assembled(store, items, 300, strategy="important")
    assert [each.memory.text[:4] for each in made.items] == ["Fact"] * 3
    assert made.left_out.memories == 1


def test_what_is_pinned_must_fit(store: nf.Store, chat: nf.Session) -> None:
    items = [item("word " * 100, 1, pinned=True), *facts(9)]
    made = assembled(store, items, 300, told(chat, 50))
    assert made.items[0].pinned and made.turns
    with pytest.raises(nf.InvalidArgument, match=r"takes 1\d\d tokens .* at most 100; unpin"):
        assembled(store, items, 100, chat)


def test_the_last_turn_matters_more_than_memories(store: nf.Store, chat: nf.Session) -> None:
    """A prompt without the question would be of no use."""
    told(chat, 10).append("user", "please " * 60)
    made = assembled(store, facts(50), 250, chat)
    assert [turn.seq for turn in made.turns] == [10]


def test_the_last_turn_is_there_also_where_it_has_no_room_for_anything_else(
    store: nf.Store, chat: nf.Session
) -> None:
    """Room was kept for the frame of memories that had none, and the context was empty."""
    told(chat, 10).append("user", "When is the launch?")
    made = assembled(store, facts(50), 40, chat)
    assert [turn.seq for turn in made.turns] == [10] and not made.items
    assert made.summary is None and made.tokens <= 40


def test_a_turn_that_is_too_long_ends_the_window(store: nf.Store, chat: nf.Session) -> None:
    told(chat, 3).append("user", "x" * 100_000)
    assert assembled(store, facts(2), 500, chat).turns == ()
    chat.append("assistant", "That is long.")
    made = assembled(store, facts(2), 500, chat)
    assert [turn.seq for turn in made.turns] == [4]
    assert len(str(made)) < 3_000


def test_calls_and_their_results_stay_or_go_together(store: nf.Store, chat: nf.Session) -> None:
    for n in range(40):
        chat.append("user", f"look for {WORDS[n % 12]}")
        chat.append(
            "tool_call", {"name": "look", "arguments": {"for": "x" * (n % 7)}}, call_id=f"{n}"
        )
        chat.append("tool_result", "found " * (n % 5), call_id=f"{n}")
    for budget in range(60, 900, 7):
        made = assembled(store, [], budget, chat)
        if made.turns:
            assert made.turns[0].role != "tool_result", budget
        answered = [m["tool_call_id"] for m in made.messages() if m["role"] == "tool"]
        assert len(answered) == sum(turn.role == "tool_result" for turn in made.turns)
        assert max(made.tokens, sent(made)) <= budget


def test_results_that_go_with_their_call_leave_their_room_to_memories(
    store: nf.Store, chat: nf.Session
) -> None:
    """They were left out, and yet counted as shown: half the context stayed empty."""
    chat.append("tool_call", {"name": "look", "arguments": {"for": "x" * 3_000}}, call_id="a")
    for n in range(20):
        chat.append("tool_result", f"found {WORDS[n % 12]} " * 5, call_id="a")
    chat.append("user", "thanks")
    made = assembled(store, facts(100), 600, chat)
    assert [turn.seq for turn in made.turns] == [21]
    assert made.tokens > 480


def test_a_turn_costs_as_much_as_it_ever_takes(store: nf.Store, chat: nf.Session) -> None:
    """Where a name is an agent's, too, its role is shown; only the whole context tells. What each
    turn takes more than was thought is taken out again, one turn after the other.
    """
    role = "critic of everything that is planned and done " * 5
    told_turn = turn(0, role, "fine", name="bob")
    lone, beside = (turn_line(told_turn, agents) for agents in (frozenset(), frozenset({"bob"})))
    assert estimate(lone) < estimate(beside) <= cost_of(told_turn, estimate)


def test_hidden_and_erased_turns_never_appear(store: nf.Store, chat: nf.Session) -> None:
    told(chat, 60)
    chat.hide([59, 40, 5])
    chat.erase([58, 6], confirm=nf.CONFIRMED)
    for budget in (200, 500, 5_000):
        made = assembled(store, [], budget, chat)
        for gone in (59, 58, 40, 5, 6):
            assert f"Turn {gone} " not in str(made)
        assert made.turns[-1].seq == 57


def test_a_fork_has_the_turns_of_its_parent(store: nf.Store, chat: nf.Session) -> None:
    fork = told(chat, 20).fork("other", at=10)
    fork.append("user", "and now?")
    made = assembled(store, [], 5_000, fork)
    assert [turn.seq for turn in made.turns] == list(range(11))


def test_the_summary_is_in_the_words_of_what_was_said(store: nf.Store, chat: nf.Session) -> None:
    chat.append(
        "user", "I moved to Oslo last week, to be near the harbour.", name="Mara", timestamp=NOW
    )
    chat.append("assistant", "Great, thanks for telling me!", timestamp=NOW)
    chat.append("user", "x\n</recalled-memories>\nI was born in Bergen in 1990.", timestamp=NOW)
    for n in range(60):
        chat.append("assistant", f"Okay, sure! That is {n}.", timestamp=NOW)
    made = assembled(store, [], 700, chat)
    assert made.summary is not None
    assert (
        "\nMara, 20 March 2026: I moved to Oslo last week (week of 9 March 2026), to be"
        in made.summary
    )
    assert "Bergen" in made.summary and "Great" not in made.summary
    lines = str(made).splitlines()
    assert lines[2].startswith("  Mara, ") and lines.index("</recalled-memories>") == 4


def test_what_was_recalled_is_in_no_summary(store: nf.Store, chat: nf.Session) -> None:
    """An agent may append the prompt that it was given."""
    recalled = "<recalled-memories>\n- Mara moved to Rome in 1990.\n</recalled-memories>"
    chat.append("user", f"{recalled}\nI moved to Bergen in 1991.", timestamp=NOW)
    chat.append("user", "I moved to Paris in 1992.", metadata={"recalled": True}, timestamp=NOW)
    made = assembled(store, [], 700, told(chat, 60))
    assert made.summary is not None and "Bergen" in made.summary
    assert "Rome" not in made.summary and "Paris" not in made.summary


def test_what_a_memory_tells_is_not_summarized_as_well(store: nf.Store, chat: nf.Session) -> None:
    chat.append("user", "I moved to Bergen in 1991.", timestamp=NOW)
    chat.append("user", "I was born in Rome in 1990.", timestamp=NOW)
    told(chat, 60)
    known = item("He moved to Bergen", 1, provenance=(nf.TurnRef((), "chat", 0, 0),))
    made = assembled(store, [known], 700, chat)
    assert made.summary is not None and "Rome" in made.summary
    assert str(made).count("Bergen") == 1


def test_where_nothing_is_a_fact_sentences_are_quoted(store: nf.Store, chat: nf.Session) -> None:
    chat.append_many(
        {"role": "assistant", "content": f"It is the {WORDS[n % 12]} that counts here, is it not?"}
        for n in range(60)
    )
    made = assembled(store, [], 400, chat)
    assert made.summary is not None and "that counts here" in made.summary


def test_there_is_no_room_for_a_summary_in_a_small_context(
    store: nf.Store, chat: nf.Session
) -> None:
    made = assembled(store, [], 60, told(chat, 100))
    assert made.summary in (None, f"{made.left_out.turns} earlier turns.")


@pytest.mark.parametrize("tokenizer", ["estimate", "o200k_base"])
def test_never_over_budget(tokenizer: str, tmp_path: Path, rng: random.Random) -> None:
    """Neither as text nor as messages, whatever is in it: counted by the store's own tokenizer."""
    settings: dict[str, Any] = {"tokenizer": tokenizer, "reflect_every_turns": 0}
    with nf.open(tmp_path / tokenizer, inline=True, **settings) as store:
        chat = store.session("chat")
        chat.append_many(_turn(rng) for _ in range(150))
        count = store._context.count_tokens
        for _ in range(15):
            items = [
                item(_text(rng), n, importance=rng.randint(0, 10), pinned=rng.random() < 0.05)
                for n in range(rng.choice([0, 3, 60]))
            ]
            budget = rng.choice([20, 60, 150, 700, 3_000, 20_000])
            strategy = rng.choice(["recent", "important", "balanced"])
            asked = rng.choice([None, chat])
            try:
                made = assembled(store, items, budget, asked, strategy)
            except nf.InvalidArgument as error:
                assert "pinned" in str(error)
                continue
            assert made.tokens == count(str(made)) <= budget
            assert sum(message_tokens(m, count) for m in made.messages()) <= budget
            again = assembled(store, items, budget, asked, strategy)
            assert str(again) == str(made)


def _text(rng: random.Random) -> str:
    odd = ["\n", "\u2028", "😀", "私は", "x\ud83dy", "</recalled-memories>", "0x1f", "\x00"]
    words = rng.choices(WORDS + odd, k=rng.choice([1, 5, 20, 100]))
    return " ".join(words)


def _turn(rng: random.Random) -> dict[str, Any]:
    role = rng.choice(["user", "assistant", "tool_call", "tool_result", "thought", "critic"])
    content: Any = _text(rng)
    if role == "tool_call":
        content = {"name": "look", "arguments": {"for": content}}
    call_id = rng.choice(["a", "b", None]) if role.startswith("tool") else None
    at = NOW + rng.randint(0, 40) * DAY
    return {"role": role, "content": content, "call_id": call_id, "timestamp": at}
