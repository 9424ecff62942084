"""Extractors by name, and the check of what any of them answers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from neverforget.actors.extractor_contract import (
    CONTEXT_CHARACTERS_MAX,
    FACTS_MAX,
    Extractor,
    Fact,
    NotExtracted,
    Window,
    checked_facts,
    context_of,
)
from neverforget.runtime import extractors
from neverforget.runtime.config import Config
from neverforget.runtime.extractor_openai import OpenAIExtractor
from neverforget.runtime.extractor_rules import RulesExtractor
from neverforget.storage.errors import InvalidArgument, NotFound
from tests.runtime.extraction_windows import turn, window

SECRET = "private matters"
WINDOW = window(
    turn(3, "Ann", "What she said before.", fresh=False),
    turn(4, "Ann", "I moved to Oslo."),
    turn(5, "Bot", "You live in Oslo.", role="assistant", recalled=True),
    turn(6, "Ann", "In a red house."),
)
RIGHT = Fact("Ann lives in Oslo.", 4, 6, speaker="Ann", tags=("place:oslo",), subject="ann: home")


class Silent:
    extractor_id = "silent-1"

    def extract(self, window: Window, /) -> list[Fact]:
        return []


# ---- the check of an answer ----------------------------------------------------------------------


def test_right_facts_pass_as_they_are() -> None:
    assert checked_facts(WINDOW, [RIGHT]) == [RIGHT]
    assert checked_facts(WINDOW, ()) == []
    own = msgspec.structs.replace(RIGHT, type="recipe", importance=10, confidence=0)
    assert checked_facts(WINDOW, [own]) == [own]


def wrong_facts() -> Iterator[tuple[str, dict[str, Any], str]]:
    yield "no text", {"text": 5}, "text is no text"
    yield "blank", {"text": " \n"}, "text is empty"
    yield "long", {"text": SECRET * 2_000}, "text is too long"
    yield "old turn", {"first": 3}, "no fresh turns"
    yield "recalled", {"last": 5}, "no fresh turns"
    yield "unknown turn", {"last": 7}, "no fresh turns"
    yield "turned around", {"first": 6, "last": 4}, "no fresh turns"
    yield "a bool", {"first": True}, "no fresh turns"
    yield "text as turn", {"first": SECRET}, "no fresh turns"
    yield "reserved type", {"type": f"{SECRET}-chunk"}, "type"
    yield "no type", {"type": ""}, "type"
    yield "importance", {"importance": 10.5}, "importance"
    yield "nan", {"importance": float("nan")}, "importance"
    yield "no float", {"importance": 10**400}, "importance"
    yield "infinite", {"confidence": float("inf")}, "confidence"
    yield "confidence", {"confidence": True}, "confidence"
    yield "tags as text", {"tags": SECRET}, "tags"
    yield "tags as list", {"tags": ["a"]}, "tags are no tuple"
    yield "a bad tag", {"tags": (SECRET,)}, "tags"
    yield "many tags", {"tags": tuple(f"t{n}" for n in range(99))}, "tags"
    yield "speaker", {"speaker": SECRET * 50}, "speaker"
    yield "subject", {"subject": ""}, "subject"
    yield "time", {"occurred_at": 1.5}, "occurred_at"
    yield "far away", {"valid_to": 2**70}, "valid_to"
    yield "backwards", {"valid_from": 5, "valid_to": 4}, "valid_to lies before"


@pytest.mark.parametrize(("changes", "said"), [w[1:] for w in wrong_facts()],
                         ids=[w[0] for w in wrong_facts()])  # fmt: skip
def test_what_cannot_be_remembered_is_named_and_not_repeated(
    changes: dict[str, Any], said: str
) -> None:
    wrong = msgspec.structs.replace(RIGHT, **changes)
    with pytest.raises(NotExtracted, match=said) as caught:
        checked_facts(WINDOW, [RIGHT, wrong])
    assert str(caught.value).startswith("fact 1: ")
    assert "private" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("answer", [None, "facts", {"facts": []}, [{"text": SECRET}], iter([])])
def test_an_answer_that_is_no_list_of_facts_is_refused(answer: object) -> None:
    with pytest.raises(NotExtracted) as caught:
        checked_facts(WINDOW, answer)
    assert "private" not in str(caught.value)


def test_ten_thousand_facts_are_refused_as_a_whole() -> None:
    assert len(checked_facts(WINDOW, [RIGHT] * FACTS_MAX)) == FACTS_MAX
    with pytest.raises(NotExtracted, match="10,000 facts of one window"):
        checked_facts(WINDOW, [RIGHT] * 10_000)


def test_what_is_said_around_a_fact_is_its_context_but_not_what_was_recalled() -> None:
    assert context_of(WINDOW, Fact("x", 4, 4)) == "What she said before."
    assert context_of(WINDOW, Fact("x", 4, 6)) == "What she said before."
    assert context_of(WINDOW, Fact("x", 6, 6)) is None
    long = window(turn(0, "Ann", "a" * 9_000), turn(1, "Ann", "x"), turn(2, "Bo", "b" * 9_000))
    near = context_of(long, Fact("x", 1, 1))
    assert near is not None and len(near) <= CONTEXT_CHARACTERS_MAX
    assert near.count("a") == near.count("b") > 900
    assert context_of(window(turn(0, "Ann", " ")), Fact("x", 0, 0)) is None


# ---- by name -----------------------------------------------------------------------------------


def test_extractors_are_made_of_names_and_objects() -> None:
    assert extractors.made("none") is None
    rules = extractors.made("rules", timezone="Europe/Oslo")
    assert isinstance(rules, RulesExtractor) and "Europe/Oslo" in repr(rules)
    assert isinstance(extractors.made("openai:m@http://host/v1"), OpenAIExtractor)
    own = Silent()
    assert extractors.made(own) is own
    assert extractors.stored_name(own) == "object:silent-1"
    assert extractors.stored_name("rules") == "rules"
    for each in (own, RulesExtractor(), OpenAIExtractor("openai:m@http://host/v1")):
        assert isinstance(each, Extractor)
        assert pickle.loads(pickle.dumps(each)).extractor_id == each.extractor_id
    with pytest.raises(NotFound, match="pass extractor="):
        extractors.made("object:silent-1")


@pytest.mark.parametrize(
    "wrong",
    ["llm", "", "openai:", "openai:m", "openai:m@https://user:pw@host/v1", 5, None, Silent, {}],
)
def test_what_is_no_extractor_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        extractors.check(wrong)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, "", 3, b"mine-1", "m\n1", "m" * 513])
def test_an_object_is_known_by_text(wrong: object) -> None:
    """An id that was no text was kept as text, and the extractor could not be made for ever."""

    class Odd(Silent):
        extractor_id: Any = wrong

    with pytest.raises(InvalidArgument, match="extractor_id is"):
        Config(extractor=Odd())
