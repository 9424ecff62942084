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
from neverforget.runtime.demo.agent import SHARED_SESSION, DemoAgent, Notes
from neverforget.runtime.demo.checking import Verdict, check
from neverforget.runtime.demo.conversations import read_conversations, share_out
from neverforget.runtime.demo.learning import (
    Learned,
    answers,
    check_kept,
    facts_for,
    forget_and_undo,
)
from neverforget.runtime.demo.running import Kill, Outcome
from neverforget.runtime.demo.showing import Screen, latencies, outcome_json
from neverforget.runtime.demo.showing_memories import show_learned
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


def test_the_screen_shows_the_numbers_and_a_tail_to_read(store: nf.Store) -> None:
    outcome = Outcome(folder="x", notes=talked(store), verified=store.verify())
    outcome.verdict = checked(store, outcome.notes)
    outcome.kill = survived()
    outcome.kill.owner = store.status().owners[0]
    outcome.tail_of = ((), "retro")
    outcome.tail = store.session("retro").tail(5)
    out = StringIO()
    screen = Screen(Console(file=out, width=100))
    screen.begins(outcome, 8.0)
    with screen.step("doing", "done"):
        screen.talking(1.0, 8.0, 100)
    screen.killed(outcome.kill)
    screen.came_back(outcome.kill)
    screen.result(outcome, kept=False)
    text = out.getvalue()
    for expected in ("kill -9 1", "0.50 s", "p99", "Wait for the children.", "nothing was lost"):
        assert expected in text
    outcome.verdict.faults.append("something is lost")
    screen.result(outcome, kept=True)
    assert "something is lost" in out.getvalue() and "the check failed" in out.getvalue()


# ---- what the fleet learned ----------------------------------------------------------------------


def taught(store: nf.Store, path: Path | None = None) -> Learned:
    """What one agent remembers, asks, and forgets."""
    conversations, _ = read_conversations(path)
    facts, questions = facts_for(path, conversations)
    notes = DemoAgent(store, "ada", [], "r", 0).learn({"ada": facts, "bob": [{}]})
    learned = Learned(facts=len(facts), agents=1, from_file=path is not None)
    learned.kept = {memory_id: text for memory_id, text, _ in notes.remembered}
    learned.answers = list(answers(store, questions))
    forget_and_undo(store, learned)
    check_kept(store, learned)
    return learned


@pytest.fixture
def words(tmp_path: Path) -> Iterator[nf.Store]:
    """A store whose embedder is at hand at once, and compares words."""
    with nf.testing.store(tmp_path / "words") as opened:
        yield opened


def test_the_fleet_recalls_in_three_ways_and_a_deletion_is_on_record(words: nf.Store) -> None:
    learned = taught(words)
    assert learned.faults == []
    assert len(learned.kept) == learned.facts >= 30
    assert [answer.question.how for answer in learned.answers] == [
        "by meaning",
        "by words",
        "by time",
    ]
    by_words, by_time = learned.answers[1:]
    assert by_words.hits[0].memory.key == "facts/school-bus"
    assert by_words.sources[0][0].session == "pilot"
    assert by_time.hits.timeframe is not None and by_time.hits.timeframe.phrase == "last week"
    assert {entry.by for entry in learned.audit} == {"operator"}
    out = StringIO()
    show_learned(Console(file=out, width=80), learned)
    shown = out.getvalue()
    for expected in ("remembered by 1 agent ", "from pilot #9-17", "forget-refused", "last week"):
        assert expected in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_of_a_file_the_turns_of_one_conversation_are_remembered(
    words: nf.Store, tmp_path: Path
) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([locomo_sample("s", sessions=3), locomo_sample("t", sessions=1)]))
    learned = taught(words, file)
    assert learned.faults == []
    assert {memory.speaker for memory in words.memories(limit=200)} >= {"Anouk", "Bram"}
    assert all((memory.key or "").startswith("locomo/s/") for memory in words.memories(limit=200))


def test_a_memory_that_is_lost_or_changed_is_found(words: nf.Store) -> None:
    learned = taught(words)
    first, second, *_ = learned.kept
    words.forget(first, confirm=nf.CONFIRMED)
    words.revise(second, text="something else")
    check_kept(words, learned)
    assert len(learned.faults) == 2 and not learned.ok
