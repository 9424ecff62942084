"""What takes the place of what: newer facts of a subject, and newer extractors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.extractor_contract import Fact, Window, extractable
from neverforget.actors.longterm_messages import packed
from neverforget.actors.places import LONGTERM
from neverforget.actors.reflector_memories import subject_tag
from neverforget.storage.longterm_checks import check_tags
from neverforget.storage.longterm_results import NewMemory, NewRelation, TurnPoint
from tests.actors.reflecting import DAY_US, START_US, Died, Dying, Stage, Told, run_through
from tests.storage.small_longterm import memory_id

DAY = {day: START_US + day * DAY_US for day in range(10)}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path)
    yield found
    found.close()


def spans(stage: Stage) -> dict[str, tuple[int | None, int | None]]:
    """Text -> days from which and until when it holds."""

    def day(at: int | None) -> int | None:
        return None if at is None else (at - START_US) // DAY_US

    return {
        each.text.removesuffix(" (told-1)"): (day(each.valid_from), day(each.valid_to))
        for each in stage.memories()
    }


def test_a_newer_fact_takes_the_place_of_an_older_one(stage: Stage) -> None:
    stage.append("s", "home = Oslo", at=DAY[1])
    stage.append("s", "job = potter", at=DAY[1])
    stage.reflect_all(Told())
    stage.append("t", "home = Bergen", at=DAY[5])
    stage.reflect_all(Told(), "t")
    assert spans(stage) == {
        "home = Oslo": (1, 5), "job = potter": (1, None), "home = Bergen": (5, None),
    }  # fmt: skip
    old, job, new = stage.memories()
    assert stage.superseded(new) == [old.text] and stage.superseded(job) == []
    assert old.version == 2 and old.by == "reflector" and old.tags == ("subject:home",)
    assert stage.texts(as_of=DAY[3]) == [old.text, job.text]
    assert stage.texts(as_of=DAY[5]) == [new.text, job.text]


@pytest.mark.parametrize("order", [*itertools.permutations((1, 2, 3))], ids=str)
def test_the_order_in_which_they_are_learned_does_not_matter(
    stage: Stage, order: tuple[int, ...]
) -> None:
    """Old conversations may be imported late."""
    for day in order:
        stage.append(f"s{day}", f"home = {day}", at=DAY[day])
        stage.reflect_all(Told(), f"s{day}")
    assert spans(stage) == {"home = 1": (1, 2), "home = 2": (2, 3), "home = 3": (3, None)}
    last = next(one for one in stage.memories() if one.text.startswith("home = 3"))
    assert "home = 2 (told-1)" in stage.superseded(last)


def test_within_one_window(stage: Stage) -> None:
    stage.append("s", "home = Rome", at=DAY[1])
    stage.reflect_all(Told())
    stage.append("s", "home = Oslo", at=DAY[2])
    stage.append("s", "home = Bergen", at=DAY[3])
    stage.append("s", "home = Paris", at=DAY[0])
    stage.reflect_all(Told())
    assert spans(stage) == {
        "home = Paris": (0, 1), "home = Rome": (1, 2), "home = Oslo": (2, 3),
        "home = Bergen": (3, None),
    }  # fmt: skip
    versions = {one.text.split()[2]: one.version for one in stage.memories()}
    assert versions == {"Rome": 2, "Oslo": 1, "Bergen": 1, "Paris": 1}


def test_of_the_same_moment_the_later_learned_holds(stage: Stage) -> None:
    stage.append("s", "home = Oslo", at=DAY[1])
    stage.reflect_all(Told())
    stage.append("t", "home = Bergen", at=DAY[1])
    stage.reflect_all(Told(), "t")
    assert spans(stage) == {"home = Oslo": (1, 1), "home = Bergen": (1, None)}
    assert stage.texts(as_of=DAY[1]) == ["home = Bergen (told-1)"]


def test_what_is_forgotten_does_not_count(stage: Stage) -> None:
    for day in (1, 2):
        stage.append("s", f"home = {day}", at=DAY[day])
        stage.reflect_all(Told())
    stage.forget(stage.memories()[1].id)
    stage.append("s", "home = 4", at=DAY[4])
    stage.reflect_all(Told())
    new = stage.memories()[-1]
    assert stage.superseded(new) == ["home = 1 (told-1)"]
    assert spans(stage) == {"home = 1": (1, 2), "home = 4": (4, None)}  # it ended before


def test_what_somebody_revised_counts_as_it_is_now(stage: Stage) -> None:
    stage.append("s", "home = Oslo", at=DAY[1])
    stage.reflect_all(Told())
    stage.revise(stage.memories()[0].id, valid_from=DAY[6])
    stage.append("s", "home = Bergen", at=DAY[4])
    stage.reflect_all(Told())
    assert spans(stage) == {"home = Oslo": (6, None), "home = Bergen": (4, 6)}


def test_others_subjects_and_namespaces_are_left_alone(stage: Stage) -> None:
    stage.append("s", "ann: home = Oslo", at=DAY[1])
    stage.append("s", "ann home = Rome", at=DAY[2])  # the same tag, another subject
    stage.reflect_all(Told())
    stage.append("s", "ann: home = Bergen", at=DAY[3], namespace=("team", "deeper"))
    place = ("team", "deeper")
    assert len({tuple(one.namespace) for one in stage.memories()}) == 1
    run_through(stage.reflector(Told), namespace=place)
    assert spans(stage) == {
        "ann: home = Oslo": (1, None), "ann home = Rome": (2, None),
        "ann: home = Bergen": (3, None),
    }  # fmt: skip
    assert {one.tags for one in stage.memories()} == {("subject:ann-home",)}


def test_an_extractor_is_told_what_is_known(stage: Stage) -> None:
    stage.append("s", "home = Oslo", "remember no subject", at=DAY[1])
    stage.reflect_all(Told())
    stage.append("s", "hello")
    extractor = Told()
    stage.reflect_all(extractor)
    (window,) = extractor.seen
    assert [(k.text, k.subject) for k in window.known] == [("home = Oslo (told-1)", "home")]


def test_since_when_a_fact_holds(stage: Stage) -> None:
    """What has happened holds since then; what is to come, since it was told."""

    class Dated(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            (turn,) = extractable(window)
            at = DAY[int(turn.text)]
            return [Fact(f"day {turn.text}", turn.seq, turn.seq, subject="x", occurred_at=at)]

    for day in (2, 8):
        stage.append("s", str(day), at=DAY[5])
        stage.reflect_all(Dated())
    assert spans(stage) == {"day 2": (2, 5), "day 8": (5, None)}


@pytest.mark.parametrize(
    "subject",
    ["caroline: home", "Ann:  Home", "straße", "日本: 家", "x" * 199, "a:b:c:d:e:f", "!?", "-"],
)
def test_tags_of_subjects_are_tags(subject: str) -> None:
    tag = subject_tag(subject)
    check_tags([tag])
    assert tag == subject_tag(subject.upper() if subject.isascii() else subject)
    assert tag != subject_tag(subject + "!?y")


# ---- again, with another extractor ---------------------------------------------------------------


def test_a_newer_extractor_takes_the_place_of_an_older_one(stage: Stage) -> None:
    stage.append("s", "remember the kiln", "home = Oslo", at=DAY[1])
    stage.append("s", "home = Bergen", "hello", at=DAY[2])
    stage.reflect_all(Told())
    old = {one.text: one for one in stage.memories()}
    assert stage.left("s", again="told-1") is None

    class Newer(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            facts = super().extract(window)
            return [Fact("the kiln, in clay", 0, 0), *facts[1:]]

    assert stage.reflect_all(Newer("told-2"), again=True) == 1
    assert stage.reflect_all(Newer("told-2"), again=True) == 0
    memories = {one.text: one for one in stage.memories()}
    assert set(old) < set(memories) and len(memories) == 6, "nothing is deleted"
    assert stage.superseded(memories["the kiln, in clay"]) == ["the kiln"]
    kiln = memories["the kiln"]
    assert kiln.valid_to is not None and kiln.valid_to > DAY[2]
    assert "home = Oslo (told-1)" in stage.superseded(memories["home = Oslo (told-2)"])
    now = kiln.valid_to
    assert stage.texts(as_of=now) == ["home = Bergen (told-2)", "the kiln, in clay"]
    assert "home = Oslo (told-2)" in stage.texts(as_of=DAY[1] + 2_000_000)
    assert "home = Oslo (told-1)" not in stage.texts(as_of=DAY[1] + 2_000_000)


def test_where_the_newer_one_finds_nothing_the_older_facts_stay(stage: Stage) -> None:
    class Silent(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            return []

    stage.append("s", "remember the kiln", "home = Oslo")
    stage.reflect_all(Told())
    before = stage.memories()
    assert stage.reflect_all(Silent("silent-1"), again=True) == 1
    assert stage.memories() == before and stage.left("s", again="silent-1") is None


def test_only_what_is_from_these_turns_is_replaced(stage: Stage) -> None:
    """Windows may lie otherwise than the first time."""
    stage.append("s", *(f"remember {n}" for n in range(6)))
    stage.reflect_all(Told())
    stage.window(Told("told-2"), again=True, window_turns=4)
    ended = {one.text for one in stage.memories() if one.valid_to is not None}
    assert ended == {"0", "1", "2", "3"}
    assert stage.reflect_all(Told("told-2"), again=True, window_turns=4) == 1
    alive = [one for one in stage.memories() if one.valid_to is None]
    assert {one.metadata["extractor"] for one in alive} == {"told-2"} and len(alive) == 6


def test_what_people_remember_of_these_turns_is_not_replaced(stage: Stage) -> None:
    stage.append("s", "remember the kiln")
    stage.reflect_all(Told())
    by_hand = NewMemory(
        memory_id(1), "by hand", related_to=(NewRelation(TurnPoint(("team",), "s", 0, 0)),)
    )
    stage.call(LONGTERM, m.Remember(0, (), "me", 9, 1, packed([by_hand]), "raise", 1))
    stage.reflect_all(Told("told-2"), again=True)
    assert {one.text for one in stage.memories() if one.valid_to is None} == {
        "by hand", "the kiln",
    }  # fmt: skip


def test_again_after_a_death_supersedes_once(stage: Stage) -> None:
    stage.append("s", "remember one", "home = Oslo")
    stage.reflect_all(Told())
    newer = Told("told-2")
    for alive in range(7):
        with pytest.raises(Died):
            stage.window(newer, again=True, owners=Dying(stage.channel, min(alive, 3)))
    stage.reflect_all(newer, again=True)
    assert len(stage.memories()) == 4
    assert [one.version for one in stage.memories()] == [2, 2, 1, 1]


def test_a_long_chain_is_not_read_for_what_is_newer(stage: Stage) -> None:
    """With thousands of facts of one subject, as where nobody has a name, each window read them
    all: 8,000 took six times as long.
    """

    def pages(at: int | None) -> int:
        stage.append("s", "home = Oslo", at=at)
        owners = Dying(stage.channel, math.inf)
        assert stage.window(Told(), owners=owners) is not None
        return owners.calls.count("Memories")

    first = pages(None)
    stage.append("s", *(f"home = {n}" for n in range(450)))
    stage.reflect_all(Told(), window_turns=150)
    assert pages(None) <= first, "the last link is enough"
    assert pages(START_US) > first, "what is older may belong anywhere"
    chain = sorted(stage.memories(), key=lambda each: each.valid_from or 0)
    assert [each.valid_to for each in chain[:-1]] == [each.valid_from for each in chain[1:]]
    assert chain[-1].valid_to is None
