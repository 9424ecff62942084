"""One window of a session: what it holds, what is made of it, and deaths at every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.extractor_contract import Fact, Window
from neverforget.actors.reflector_window import Gone, Refused
from tests.actors.reflecting import START_US, Died, Dying, Stage, Told


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path)
    yield found
    found.close()


def test_facts_become_memories_that_say_where_they_are_from(stage: Stage) -> None:
    stage.append("s", "hello", "remember the kiln", "bye", at=START_US, agent="ann-agent")
    done = stage.window(Told())
    assert done is not None and done.facts == 1
    (memory,) = stage.memories()
    assert (memory.text, memory.type, memory.source, memory.agent) == (
        "the kiln", "fact", "reflection", "ann-agent",
    )  # fmt: skip
    assert tuple(memory.namespace) == ("team",) and memory.context == "hello\nbye"
    assert memory.metadata == {"session": "s", "extractor": "told-1"}
    assert memory.valid_from is None and memory.by == "reflector"
    assert stage.provenance(memory) == [(1, 1)]
    assert stage.consolidated("s") == (3, 3) and stage.window(Told()) is None


def test_windows_are_bounded_and_overlap_for_context(stage: Stage) -> None:
    stage.append("s", *(f"remember {n}" for n in range(10)), token_count=10)
    extractor = Told()
    assert stage.reflect_all(extractor, window_turns=4, overlap_turns=2) == 3
    shown = [[(t.seq, t.fresh) for t in window.turns] for window in extractor.seen]
    assert shown[1] == [(2, False), (3, False), (4, True), (5, True), (6, True), (7, True)]
    assert [len(each) for each in shown] == [4, 6, 4]
    stage.append("s", *(f"remember more {n}" for n in range(6)), token_count=10)
    stage.append("s", "remember a long one", "remember the last", token_count=1_000)
    extractor = Told()
    assert stage.reflect_all(extractor, window_tokens=45, overlap_turns=0) == 4
    assert [len(window.turns) for window in extractor.seen] == [4, 2, 1, 1]
    assert len(stage.memories()) == 18


def test_what_is_not_to_be_learned_from_is_left_out(stage: Stage) -> None:
    stage.append("s", "remember hidden", "remember erased", "remember kept")
    stage.append("s", "remember an echo", metadata={"recalled": True})
    stage.append(
        "s",
        "Remember this:\n<recalled-memories>\nremember an echo\n</recalled-memories>\nand reply",
        "<recalled-memories>\nremember an echo",
    )
    stage.hide("s", 0)
    stage.erase("s", 1)
    extractor = Told()
    stage.reflect_all(extractor)
    assert stage.texts() == ["kept"]
    (window,) = extractor.seen
    assert [(turn.seq, turn.recalled) for turn in window.turns] == [
        (2, False), (3, True), (4, False), (5, True),
    ]  # fmt: skip
    assert window.turns[2].text == "Remember this:\nand reply"
    assert "echo" not in "".join(turn.text for turn in window.turns if not turn.recalled)
    assert stage.consolidated("s") == (6, 6)


def test_a_window_with_nothing_to_learn_from_is_only_marked(stage: Stage) -> None:
    stage.append("s", "remember hidden")
    stage.hide("s", 0)
    extractor = Told()
    assert stage.reflect_all(extractor) == 1
    assert extractor.seen == [] and stage.memories() == [] and stage.left("s") is None


def test_speakers_and_structured_content(stage: Stage) -> None:
    stage.append("s", [{"type": "text", "text": "remember parts"}], role="user", name=None)
    stage.append("s", {"a": [1, None]}, b"\x00\x01", role="assistant", name=None, agent="helper")
    extractor = Told()
    stage.reflect_all(extractor)
    turns = extractor.seen[0].turns
    assert [turn.text for turn in turns] == ["remember parts", '{"a": [1, null]}', "(2 bytes)"]
    assert [turn.speaker for turn in turns] == [None, "helper", "helper"]
    assert stage.texts() == ["parts"]


def test_what_is_said_twice_in_a_window_is_one_fact(stage: Stage) -> None:
    stage.append("s", "remember tea", "remember coffee", "remember tea")
    stage.reflect_all(Told())
    assert stage.texts() == ["coffee", "tea"]
    assert [stage.provenance(one) for one in stage.memories()] == [[(1, 1)], [(2, 2)]]


def test_of_a_fork_its_own_turns_are_learned_from(stage: Stage) -> None:
    stage.append("s", "remember the past", "remember one")
    stage.fork("s", "f", 1)
    stage.append("f", "remember another", "remember more")
    extractor = Told()
    stage.reflect_all(extractor, "s", "f")
    assert stage.texts() == ["another", "more", "one", "the past"]
    assert [turn.seq for turn in extractor.seen[1].turns] == [1, 2]
    assert stage.left("f") is None


# ---- deaths --------------------------------------------------------------------------------------


def conversation(stage: Stage) -> None:
    stage.append("s", "home = Oslo", "remember the kiln", at=START_US)
    stage.reflect_all(Told("old"))
    stage.append("s", "hello", "home = Bergen", "remember the violin", "home = Rome")


def everything(stage: Stage) -> list[tuple[Any, ...]]:
    found = []
    for each in stage.memories(status=None):
        until = each.valid_to
        found.append((each.text, each.version, each.valid_from, until, stage.superseded(each)))
    return sorted(found)


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[tuple[Any, ...]], list[str]]:
    stage = Stage(tmp_path_factory.mktemp("undisturbed"))
    try:
        conversation(stage)
        owners = Dying(stage.channel, 10_000)
        stage.reflect_all(Told(), owners=owners)
        return everything(stage), owners.calls
    finally:
        stage.close()


CALLS = 10  # of a window and the look for the next one


def test_the_calls_of_a_window_are_as_many_as_the_deaths_below(undisturbed: Any) -> None:
    expected, calls = undisturbed
    assert len(calls) == CALLS, calls
    assert {"Plan", "Get", "Memories", "Remember", "Mark"} <= set(calls)
    assert len(expected) == 5


@pytest.mark.parametrize("after", [False, True], ids=["before", "done-and-not-answered"])
@pytest.mark.parametrize("alive", range(CALLS))
def test_a_death_at_any_call_changes_nothing(
    stage: Stage, undisturbed: Any, alive: int, after: bool
) -> None:
    """Scenario 33, with a death at every call to an owner between plan and mark."""
    conversation(stage)
    with pytest.raises(Died):
        stage.reflect_all(Told(), owners=Dying(stage.channel, alive, after=after))
    stage.reflect_all(Told())
    assert everything(stage) == undisturbed[0]
    assert stage.consolidated("s") == (6, 6) and stage.left("s") is None


def test_death_upon_death(stage: Stage, undisturbed: Any) -> None:
    """Scenario 33: the same range ten times, each time killed between facts and mark; the number of
    memories does not change, nor with an owner that is opened anew each time.
    """
    conversation(stage)
    before_mark = undisturbed[1].index("Mark")
    with pytest.raises(Died):
        stage.reflect_all(Told(), owners=Dying(stage.channel, before_mark))
    found = everything(stage)
    for turn in range(10):
        owners = Dying(stage.channel, 3)  # is there a batch; are its turns; the mark
        with pytest.raises(Died):
            stage.reflect_all(Told(), owners=owners)
        assert owners.calls[-1] == "Mark" and everything(stage) == found
        if turn % 4 == 3:
            stage.reopen()
    stage.reflect_all(Told())
    assert everything(stage) == undisturbed[0] == found


def test_a_plan_of_another_extractor_is_finished_or_made_anew(stage: Stage) -> None:
    """A process died and came back with another extractor."""
    for stored in (False, True):
        session = f"s{stored}"
        stage.append(session, "remember one", "remember two")
        calls = ["Unreflected", "Get", "Plan"]
        calls += ["Memories", "Get", "Remember"] if stored else []
        with pytest.raises(Died):
            stage.window(Told("first"), session, owners=Dying(stage.channel, len(calls)))
        stage.reflect_all(Told("second"), session)
        made = {one.metadata["extractor"] for one in stage.memories()}
        assert made == ({"first", "second"} if stored else {"second"})
    assert len(stage.memories()) == 4


# ---- what is erased meanwhile --------------------------------------------------------------------


class Meanwhile(Told):
    """While it extracts for the first time, something happens."""

    def __init__(self, happens: Any) -> None:
        super().__init__()
        self._happens = happens

    def extract(self, window: Window, /) -> list[Fact]:
        facts = super().extract(window)
        if len(self.seen) == 1:
            self._happens()
        return facts


@pytest.mark.parametrize("what", ["hide", "erase"])
def test_what_goes_during_the_extraction_is_in_no_fact(stage: Stage, what: str) -> None:
    stage.append("s", "remember one", "remember secret", "remember three")
    extractor = Meanwhile(lambda: getattr(stage, what)("s", 1))
    stage.reflect_all(extractor)
    assert stage.texts(status=None) == ["one", "three"] and len(extractor.seen) == 2
    assert not any("secret" in (one.context or "") for one in stage.memories())
    assert stage.consolidated("s") == (3, 3)


class Interfering:
    """Owners, and something that happens behind the first request of a kind."""

    def __init__(self, stage: Stage, kind: str, happens: Any) -> None:
        self._owners, self._kind, self._happens = stage.channel, kind, happens

    def call(self, partition: int, request: Any, deadline: float) -> Any:
        reply = self._owners.call(partition, request, deadline)
        if type(request).__name__ == self._kind and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return reply


def test_what_is_erased_while_facts_are_stored_takes_them_with_it(stage: Stage) -> None:
    """Nor does the secret stay as the context of others."""
    stage.append("s", "remember one", "remember secret", "remember three")
    owners = Interfering(stage, "Remember", lambda: stage.erase("s", 1))
    stage.reflect_all(Told(), owners=owners)
    assert stage.texts(status=None) == ["one", "three"]
    assert not any("secret" in (one.context or "") for one in stage.memories())
    assert stage.consolidated("s") == (3, 3) and stage.left("s") is None


def test_what_is_erased_before_a_dead_reflector_is_followed(stage: Stage) -> None:
    stage.append("s", "remember one", "remember secret", "remember three")
    with pytest.raises(Died):
        stage.window(Told(), owners=Dying(stage.channel, 6))
    assert len(stage.memories()) == 3 and stage.consolidated("s") == (0, 3)
    stage.erase("s", 1)
    stage.reflect_all(Told())
    assert stage.texts(status=None) == ["one", "three"] and stage.consolidated("s") == (3, 3)


@pytest.mark.parametrize("kind", ["Plan", "Remember"])
def test_a_session_that_is_erased_meanwhile_leaves_nothing(stage: Stage, kind: str) -> None:
    """Neither facts of it, nor a mark on the one that has its name now."""
    stage.append("s", "remember secret", "remember another")

    def erased_and_used_again() -> None:
        stage.erase("s")
        stage.append("s", "remember new", "remember newer")

    with pytest.raises(Gone):
        stage.window(Told(), owners=Interfering(stage, kind, erased_and_used_again))
    assert stage.memories(status=None) == [] and stage.consolidated("s") == (0, 2)
    stage.reflect_all(Told())
    assert stage.texts() == ["new", "newer"]


def test_a_fact_is_derived_from_what_could_be_read(stage: Stage) -> None:
    class Whole(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            return [Fact("all of it", window.turns[0].seq, window.turns[-1].seq)]

    stage.append("s", *"abcdef")
    stage.erase("s", 1)
    stage.hide("s", 3)
    stage.reflect_all(Whole())
    (memory,) = stage.memories()
    assert stage.provenance(memory) == [(0, 0), (2, 2), (4, 5)]


# ---- extractors that fail ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        None, "facts", [1], [Fact("", 0, 0)], [Fact("x", 5, 5)], [Fact("x", 0, 0, importance=99)],
        [Fact(f"fact {n}", 0, 0) for n in range(10_000)], [Fact("x" * 8_001, 0, 0)],
        [Fact("good", 0, 0), Fact("x", 0, 0, tags=("Not A Tag",))],
        [Fact("x", 0, 0, valid_from=5, valid_to=1)],
    ],
    ids=lambda answer: str(answer)[:20],
)  # fmt: skip
def test_an_answer_that_is_none_stores_nothing(stage: Stage, answer: Any) -> None:
    class Bad(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            found: list[Fact] = answer
            return found

    stage.append("s", "secret")
    with pytest.raises(Refused) as refused:
        stage.window(Bad())
    assert "secret" not in refused.value.message and not refused.value.away
    assert stage.memories() == [] and stage.consolidated("s") == (0, 1)


@pytest.mark.parametrize("error", [ValueError("secret"), KeyboardInterrupt(), SystemExit(3)])
def test_what_an_extractor_raises_says_nothing_of_its_texts(
    stage: Stage, error: BaseException
) -> None:
    class Raising(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            raise error

    stage.append("s", "secret")
    with pytest.raises(Refused) as refused:
        stage.window(Raising())
    assert refused.value.message == f"the extractor raised {type(error).__name__}"
