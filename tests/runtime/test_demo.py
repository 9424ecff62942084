"""The demo's parts without Ray: what agents say, and a checker that must find what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import neverforget as nf
import neverforget.testing
from neverforget.runtime.demo import reflecting
from neverforget.runtime.demo.agent import SHARED_SESSION, DemoAgent, Notes, Place, as_repeated
from neverforget.runtime.demo.checking import Verdict, check, check_memories
from neverforget.runtime.demo.conversations import read_conversations, share_out
from neverforget.runtime.demo.killing import Kill, MemoryKill
from neverforget.runtime.demo.learning import (
    SAMPLE_NOW,
    SAMPLE_QUESTIONS,
    answers,
    asked_in,
    changed,
    forget_and_undo,
    questions_about,
    weeks_after,
)
from neverforget.runtime.demo.outcome import Outcome
from neverforget.runtime.demo.outcome_json import latencies, outcome_json
from neverforget.runtime.demo.showing import Screen, Silence
from neverforget.runtime.demo.showing_memories import (
    show_deletion,
    show_learned,
    show_mind,
    show_who,
)
from neverforget.runtime.demo.thinking import CONTEXT_TOKENS, RULE, choose, keep_in_mind, think
from neverforget.runtime.values import Turn
from tests.runtime.conversation_files import locomo_sample


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "store", inline=True, sync="process") as opened:
        yield opened


def talked(store: nf.Store) -> list[Notes]:
    """What two agents noted after saying everything once."""
    conversations, _ = read_conversations(None)
    parts = share_out(conversations, 2)
    agents = [
        DemoAgent(store, name, part, "r", n) for n, (name, part) in enumerate(zip("ab", parts))
    ]
    for agent in agents:
        agent.enough()
    return [agent.talk() for agent in agents]


def checked(store: nf.Store, notes: list[Notes]) -> Verdict:
    return check(notes, lambda place: store.session(place[1], namespace=place[0]))


def survived() -> Kill:
    return Kill(0, pid=1, turns=5, at=0.0, gone_at=0.0, after_s=1.0, back_in_s=0.5)


def test_every_conversation_is_said_by_exactly_one_agent() -> None:
    conversations, cut = read_conversations(None)
    assert not cut
    parts = share_out(conversations, 5)
    names = [conversation.name for part in parts for conversation in part]
    assert sorted(names) == sorted(conversation.name for conversation in conversations)
    assert all(share_out(conversations[:2], 5)), "an agent without anything to say"


def test_a_file_that_is_too_long_is_cut(tmp_path: Path) -> None:
    assert read_conversations(None, turns_max=10)[1]


def test_what_agents_were_promised_is_found(store: nf.Store) -> None:
    notes = talked(store)
    verdict = checked(store, notes)
    assert verdict.ok
    said = sum(len(c.lines) for c in read_conversations(None)[0])
    assert verdict.acknowledged == verdict.turns >= said
    assert not any(each.failures for each in notes)
    assert len(store.session(SHARED_SESSION).info().agents) == 2


def test_the_checker_finds_every_kind_of_loss(store: nf.Store) -> None:
    notes = talked(store)
    place = notes[0].acknowledged[0].place
    turns = list(store.session(place[1], namespace=place[0]))

    def verdict(instead: list[Turn]) -> list[str]:
        def read(other: object) -> list[Turn] | nf.Session:
            if other == place:
                return instead
            return store.session(other[1], namespace=other[0])  # type: ignore[index]

        return check(notes, read).faults

    assert verdict(turns) == []
    assert "is lost" in verdict(turns[:-1])[0]
    assert "follows" in verdict(turns[:3] + turns[4:])[0]
    again = msgspec.structs.replace(turns[0], seq=len(turns))
    assert "is there again" in verdict([*turns, again])[0]
    changed = msgspec.structs.replace(turns[1], content="something else")
    assert "is not what was acknowledged" in verdict([turns[0], changed, *turns[2:]])[0]
    first, second = (msgspec.structs.replace(turns[n], seq=1 - n) for n in (0, 1))
    swapped = [second, first, *turns[2:]]
    assert len(verdict(swapped)) == 2


def test_the_checker_finds_promises_out_of_order_or_made_twice(store: nf.Store) -> None:
    notes = talked(store)
    first, second, *_ = notes[0].acknowledged
    notes[0].acknowledged[:2] = [second, first]
    assert "was told seq" in checked(store, notes).faults[0]
    notes[0].acknowledged[:2] = [first, replace(second, seq=first.seq)]
    assert any("two turns" in fault for fault in checked(store, notes).faults)


def test_the_outcome_fails_without_a_kill_that_was_survived(store: nf.Store) -> None:
    outcome = Outcome(folder="x", notes=talked(store), verified=store.verify())
    outcome.verdict = checked(store, outcome.notes)
    assert not outcome.ok
    outcome.kill = survived()
    assert outcome.ok
    assert outcome_json(outcome)["killed"] == {"partition": 0, "pid": 1, "back_in_s": 0.5}
    assert latencies(outcome)["append, on disk"]["calls"] == outcome.verdict.acknowledged


def test_the_screen_shows_the_numbers(store: nf.Store) -> None:
    outcome = Outcome(folder="x", notes=talked(store), verified=store.verify())
    outcome.verdict = checked(store, outcome.notes)
    outcome.kill = survived()
    outcome.kill.owner = store.status().owners[0]
    outcome.reflected.by_itself = 7
    outcome.reflected.kill = MemoryKill(77, done=4, all=9, owner=store.status().longterm)
    out = StringIO()
    screen = Screen(Console(file=out, width=100))
    screen.begins(outcome, 8.0)
    with screen.step("doing", "done"):
        screen.talking(1.0, 8.0, 100)
    screen.killed(outcome.kill)
    screen.came_back(outcome.kill)
    screen.reflects(outcome.reflected)
    screen.reflecting(4, 9)
    screen.killed_memories(outcome.reflected.kill)
    screen.reflected(outcome.reflected)
    screen.result(outcome, kept=False)
    text = out.getvalue()
    for expected in ("kill -9 1", "0.50 s", "p99", "7 memories", "kill -9 77", "4 of 9 turns"):
        assert expected in text
    assert "nothing was lost" in text
    outcome.verdict.faults.append("something is lost")
    outcome.mind.faults.append("the mind is lost")
    screen.result(outcome, kept=True)
    text = out.getvalue()
    assert "something is lost" in text and "the mind is lost" in text and "check failed" in text


# ---- what is remembered --------------------------------------------------------------------------


class Watching(Silence):
    """Notes how far reflection was."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def reflecting(self, done: int, all_turns: int) -> None:
        self.seen.append((done, all_turns))


@pytest.fixture
def words(tmp_path: Path) -> Iterator[nf.Store]:
    """A store whose embedder is at hand at once, and compares words."""
    with nf.testing.store(tmp_path / "words", reflect_every_turns=0) as opened:
        yield opened


def remembered(
    store: nf.Store, monkeypatch: pytest.MonkeyPatch, path: Path | None = None
) -> Outcome:
    """What one agent said, and what becomes of it without a kill: the process is this one."""
    monkeypatch.setattr(reflecting, "kill_the_memories", lambda *_: MemoryKill(1, 2, 3))
    conversations, _ = read_conversations(path)
    talk, everything = reflecting.studied(conversations)
    agent = DemoAgent(store, "ada", talk, "r", 0)
    agent.enough()
    asked = None if path is None else asked_in(talk)
    outcome = Outcome(folder="x", notes=[agent.talk()])
    outcome.reflected.everything = everything
    outcome.learned.now = SAMPLE_NOW if asked is None else weeks_after(talk)
    choose(outcome.mind, talk, outcome.notes, asked)
    watching = Watching()
    reflecting.reflect(store, talk, outcome.reflected, watching)
    assert watching.seen[-1][0] == watching.seen[-1][1] >= outcome.reflected.turns
    keep_in_mind(store, outcome.mind)
    memories = reflecting.learned_from_turns(store)
    said = {(each.namespace, each.name) for each in talk}
    learned = outcome.learned
    learned.faults += check_memories(store, outcome.reflected.memories, memories, said)
    questions = SAMPLE_QUESTIONS if asked is None else questions_about(talk, asked)
    learned.answers = list(answers(store, questions, learned.now))
    changed(store, memories, learned)
    think(store, outcome.mind, learned.now)
    forget_and_undo(store, learned)
    outcome.who = store.agents()
    return outcome


def test_what_was_said_is_found_weeks_later_with_the_turns_behind_it(
    words: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = remembered(words, monkeypatch)
    assert outcome.faults == []
    assert outcome.reflected.made >= 100
    learned = outcome.learned
    assert [answer.question.how for answer in learned.answers] == [
        "by meaning",
        "by words",
        "by time",
    ]
    by_words, by_time = learned.answers[1:]
    assert "school bus" in by_words.hits[0].memory.text
    assert by_words.sources[0][0].session == "onboarding/tomas"
    assert "school bus" in by_words.said[-1].content
    assert by_time.hits.timeframe is not None and by_time.hits.timeframe.phrase == "last month"
    assert {entry.by for entry in learned.audit} == {"operator"}
    assert learned.change is not None and learned.change.subject == "launch date"
    assert "6 April" in learned.change.then.text and "13 April" in learned.change.now.text


def test_the_screen_tells_what_is_remembered_in_few_columns(
    words: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = remembered(words, monkeypatch)
    out = StringIO()
    console = Console(file=out, width=80)
    show_learned(console, outcome.learned)
    show_mind(console, outcome.mind)
    show_who(console, outcome.who)
    show_deletion(console, outcome.learned)
    shown = out.getvalue()
    for expected in (
        "weeks later, on Monday 18 May 2026",
        "from onboarding/tomas #20",
        "recalled as of 2 March",
        "<recalled-memories>",
        f"of {CONTEXT_TOKENS} tokens, 1 pinned",
        "forget-refused",
    ):
        assert expected in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_context_holds_the_rule_and_the_question_within_its_budget(
    words: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mind = remembered(words, monkeypatch).mind
    assert mind.context is not None and mind.context.tokens <= CONTEXT_TOKENS
    assert mind.context.items[0].memory.text == RULE
    assert mind.context.turns[-1].content == mind.question


def test_of_a_long_file_one_conversation_is_remembered(
    words: nf.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reflecting, "TURNS_MAX", 100)
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([locomo_sample("s", sessions=3), locomo_sample("t", sessions=60)]))
    outcome = remembered(words, monkeypatch, file)
    assert outcome.faults == [] and not outcome.reflected.everything
    sessions = {memory.metadata["session"] for memory in reflecting.learned_from_turns(words)}
    assert {name.rpartition("/")[0] for name in sessions} == {"locomo/s"}


def test_a_file_without_times_and_questions_is_enough(
    words: nf.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "messages.json"
    said = ["I live in Oslo, near the opera.", "I moved to Bergen yesterday.", "I like the rain."]
    file.write_text(json.dumps([{"role": "user", "content": each} for each in said]))
    outcome = remembered(words, monkeypatch, file)
    assert outcome.faults == []
    assert [answer.question.how for answer in outcome.learned.answers] == ["by meaning", "by words"]
    assert outcome.learned.change is not None and "Bergen" in outcome.learned.change.now.text


def test_who_has_no_conversation_of_its_own_only_repeats(store: nf.Store) -> None:
    talk = read_conversations(None)[0][:1]
    agent = DemoAgent(store, "b", talk, "r", 1, repeats=True)
    agent.enough()
    assert agent.talk().acknowledged == []


def test_what_is_said_again_is_marked_and_nothing_is_learned_from_it(words: nf.Store) -> None:
    talk = read_conversations(None)[0][:1]
    first, again = (fields.fields for fields in talk[0].lines[:1] * 2)
    chat = words.session("again")
    chat.append(**first, key="1")
    chat.append(**as_repeated(again), key="2")
    assert [turn.metadata.get("recalled") for turn in chat] == [None, True]


def test_memories_that_are_lost_or_changed_or_learned_twice_are_found(words: nf.Store) -> None:
    chat = words.session("chat")
    for _ in range(3):
        chat.append("user", "I live in Bergen.", name="Mara")
    from_turn = nf.TurnRef((), "chat", 1, 1)

    def learned(text: str, ref: nf.TurnRef = from_turn) -> nf.Memory:
        return words.remember(text, source="reflection", related_to=ref)

    kept, lost, revised, beyond, _ = (
        learned("Mara lives in Bergen."),
        learned("Mara has a cat."),
        learned("Mara has a dog."),
        learned("Mara has a boat.", nf.TurnRef((), "chat", 2, 3)),
        learned("Mara lives in Bergen."),
    )
    memories = {each.id: each.text for each in reflecting.learned_from_turns(words)}
    words.forget(lost.id, confirm=nf.CONFIRMED)
    words.revise(revised.id, text="Mara has a horse.")

    def faults(said: set[Place]) -> list[str]:
        now = reflecting.learned_from_turns(words)
        return check_memories(words, memories, now, said)

    assert faults({((), "chat")}) == [
        f"memory {revised.id} is not what was learned",
        f"chat: turns behind memory {beyond.id} are missing",
        "chat: learned twice: Mara lives in Bergen.",
        f"the memory {lost.id} is lost",
    ]
    assert f"memory {kept.id} was learned from what was only repeated" in faults(set())
