"""The offline extractor: what it keeps of what is said, in which words; that nothing harms it."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.actors.extractor_contract import (
    FACTS_MAX,
    Fact,
    Window,
    WindowTurn,
    checked_facts,
    extractable,
)
from neverforget.runtime.extractor_dates import dated
from neverforget.runtime.extractor_rules import FACTS_A_TURN_MAX, RulesExtractor
from neverforget.runtime.extractor_sentences import sentences
from neverforget.runtime.extractor_subjects import subject_of
from neverforget.runtime.times import US_MAX, US_MIN, from_us, to_us
from neverforget.storage.errors import InvalidArgument
from tests.runtime.extraction_windows import SAID_US, chat, turn, window


def facts(of: Window) -> list[Fact]:
    return checked_facts(of, RulesExtractor().extract(of))


def texts(of: Window) -> list[str]:
    return [fact.text for fact in facts(of)]


def told(sentence: str) -> Fact:
    (fact,) = facts(chat(f"Ann: {sentence}"))
    return fact


# ---- what is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        ("I adopted a dog from the shelter.", "event"),
        ("I'm allergic to peanuts", "preference"),
        ("I feel like the old harbour is sinking.", "fact"),
        ("My brother and I really like sailing boats.", "preference"),
        ("I prefer tabs over spaces, please always use type hints.", "preference"),
        ("We decided to use Postgres instead of MySQL.", "decision"),
        ("I'm going to study marine biology in Bergen.", "plan"),
        ("My sister Mia works as a nurse.", "fact"),
        ("Got promoted to staff engineer!", "event"),
        ("Can't do Tuesdays.", "fact"),
        ("Always write tests in pytest.", "preference"),
        ("The staging server is at 10.0.0.5 and needs the VPN.", "fact"),
    ],
)
def test_statements_are_kept_in_their_words_with_speaker_and_day(said: str, type_: str) -> None:
    fact = told(said)
    assert fact.text == f"Ann, 10 May 2023: {said}"
    assert (fact.type, fact.speaker, fact.first, fact.last) == (type_, "Ann", 0, 0)
    assert fact.occurred_at == SAID_US


def test_filler_is_not_kept() -> None:
    said = (
        "Hey Bo! Good to see you!", "hello", "ok", "thanks", "Thanks so much, Bo!", "lol", "?",
        "Wow, that's so cool!", "Sounds great!", "Can't wait to hear about it.", "Bye, take care!",
        "You're welcome.", "No problem!", "Have a great weekend!", "How are you?", "👍", "...",
        "Congrats on that!", "I totally agree.", "I'm so happy for you!", "Talk to you soon!",
        "https://localhost/a/b?c=d", "hm, ok, so... yeah", "Let me know!", "It's been a while!",
        "fix the typo in line 3", "Write me a poem about the sea.", "Could you check the log?",
        "Congrats on following your dreams.", "I'll keep working on it.",
        "Missed you.", "Just wanted to say hi!", "Excited for the future!", "I hope you heal soon.",
    )  # fmt: skip
    assert texts(chat(*(f"Ann: {each}" for each in said))) == []


def test_filler_around_a_statement_is_left_out() -> None:
    said = "Hey Bo! Thanks for asking! I moved to Oslo with my brother. How about you? Talk soon!"
    assert texts(chat(f"Ann: {said}")) == ["Ann, 10 May 2023: I moved to Oslo with my brother."]


def test_sentences_of_a_turn_that_lean_on_each_other_are_one_fact() -> None:
    said = "I read a book about Bergen. It's set in the old harbour."
    assert texts(chat(f"Ann: {said}")) == [f"Ann, 10 May 2023: {said}"]


def test_a_long_turn_is_several_facts_and_no_more_than_so_many() -> None:
    parts = [f"I packed the parcel number {n} for the museum in hall {n}." for n in range(400)]
    found = facts(chat("Ann: " + " ".join(parts)))
    assert len(found) == FACTS_A_TURN_MAX
    assert all(len(fact.text) < 600 for fact in found)


def test_an_answer_is_kept_together_with_its_question() -> None:
    found = facts(
        chat(
            "Bo: Hi! Where do you live?", "Ann: In Oslo.",
            "Bo: Do you have pets?", "Ann: Two cats and a dog!",
            "Bo: Are you married?", "Ann: Yes.",
            "Bo: What's up?", "Ann: Yeah, cool.",
            "Bo: Thoughts?", "Ann: That bowl is awesome!",
        )
    )  # fmt: skip
    assert [(fact.text, fact.first, fact.last) for fact in found] == [
        ("Bo: Where do you live? Ann, 10 May 2023: In Oslo.", 0, 1),
        ("Bo: Do you have pets? Ann, 10 May 2023: Two cats and a dog!", 2, 3),
        ("Bo: Are you married? Ann, 10 May 2023: Yes.", 4, 5),
    ]


def test_a_question_that_was_looked_at_before_is_quoted_and_no_fresh_turn() -> None:
    asked = window(
        turn(7, "Bo", "Where do you live?", fresh=False), turn(8, "Ann", "In Oslo, near the sea.")
    )
    (fact,) = facts(asked)
    assert fact.text == "Bo: Where do you live? Ann, 10 May 2023: In Oslo, near the sea."
    assert (fact.first, fact.last) == (8, 8)


def test_what_says_little_but_it_comes_with_what_was_said_before() -> None:
    found = facts(
        chat("Bo: Wow! I bought a book on game design. Cool, eh?", "Ann: I read it, too.")
    )
    assert [(fact.text, fact.first, fact.last) for fact in found] == [
        ("Bo, 10 May 2023: I bought a book on game design.", 0, 0),
        ("Bo: I bought a book on game design. Ann, 10 May 2023: I read it, too.", 0, 1),
    ]


def test_nobody_answers_his_own_question() -> None:
    assert texts(chat("Ann: Where do you live?", "Ann: In Oslo.")) == []


def test_what_is_said_twice_is_kept_once() -> None:
    assert len(facts(chat("Ann: I moved to Oslo.", "Bo: Ok", "Ann: I moved to Oslo."))) == 1


def test_what_an_image_shows_is_kept_with_what_is_said_of_it() -> None:
    said = "I painted this last year!\n![A photo of a lake at sunrise with two boats](x.png)"
    fact = told(said)
    assert fact.text == (
        "Ann, 10 May 2023: I painted this last year (2022)! "
        "[image: a lake at sunrise with two boats]"
    )


# ---- who speaks, and in which role -------------------------------------------------------------


def test_speakers_without_a_name_are_called_by_their_role() -> None:
    found = facts(
        window(turn(0, None, "I live in Oslo."), turn(1, " Ann\n Lee ", "I live in Rome."))
    )
    assert [fact.text for fact in found] == [
        "User, 10 May 2023: I live in Oslo.",
        "Ann Lee, 10 May 2023: I live in Rome.",
    ]
    assert [fact.speaker for fact in found] == [None, " Ann\n Lee "]


@pytest.mark.parametrize(
    "role", ["system", "tool", "function", "tool_call", "tool_result", "thought"]
)
def test_tools_instructions_and_thoughts_tell_nothing(role: str) -> None:
    assert facts(window(turn(0, "Ann", "I moved to Oslo in May.", role=role))) == []


def test_what_an_assistant_explains_is_no_memory_and_what_it_did_is() -> None:
    said = "The error happens because the list is empty. You can check its length first."
    did = "I deployed version 2.3 to staging on 9 May 2023."
    asked = window(
        turn(0, None, "Why does my build script fail?"),
        turn(1, None, said, role="assistant"),
        turn(2, "coder", did, role="assistant"),
    )
    assert texts(asked) == [f"coder, 10 May 2023: {did}"]


def test_recalled_turns_are_neither_kept_nor_answered() -> None:
    asked = window(
        turn(0, "Ann", "I moved to Oslo.", recalled=True),
        turn(1, "Bo", "Where do you live?", recalled=True),
        turn(2, "Ann", "In Oslo."),
    )
    assert facts(asked) == []


# ---- code, markup, other languages -------------------------------------------------------------


def test_code_tables_quotations_and_data_are_left_out() -> None:
    said = """I run Python 3.11 in Oslo.
```python
# I moved to Berlin
x = "I moved to Paris"
```
> I moved to Rome, he wrote.
| I moved | to Kyiv |
## I moved to Lima
result = moved(to="Cairo");
"""
    assert texts(chat(f"Ann: {said}")) == ["Ann, 10 May 2023: I run Python 3.11 in Oslo."]
    assert facts(window(turn(0, "Ann", '{"text": "I moved to Oslo."}'))) == []
    assert facts(window(turn(0, "Ann", '["I moved to Oslo."]'))) == []


def test_sentences_end_where_they_do() -> None:
    said = (
        "Dr. Smith gave me 2.5 mg, e.g. twice. Then J. Doe came at 5 p.m. Friday! Was it? "
        "(Yes.) 我昨天搬到了北京。在银行工作！\n- one item\n- [x] another\nwrapped\nline. And so…"
    )
    assert list(sentences(said)) == [
        "Dr. Smith gave me 2.5 mg, e.g. twice.", "Then J. Doe came at 5 p.m.", "Friday!", "Was it?",
        "(Yes.)", "我昨天搬到了北京。", "在银行工作！",
        "one item", "another wrapped line.", "And so…",
    ]  # fmt: skip


def test_sentences_without_capitals_end_as_well() -> None:
    said = "my name is Ann. we moved to Oslo, e.g. by ship. ok"
    assert list(sentences(said)) == ["my name is Ann.", "we moved to Oslo, e.g. by ship.", "ok"]


def test_statements_in_other_languages_stay_whole_and_greetings_go() -> None:
    said = {
        "Ben": "Danke, gut! Ich bin gestern nach Berlin gezogen und arbeite jetzt bei Siemens.",
        "王": "你好！我昨天搬到了北京，在一家银行工作。谢谢！",
        "田中": "こんにちは！私はPythonでADKを使っています。",
        "Ana": "Bonjour ! J'habite à Paris depuis dix ans et je suis infirmière. Merci !",
    }
    assert texts(chat(*(f"{name}: {words}" for name, words in said.items()))) == [
        "Ben, 10 May 2023: Ich bin gestern nach Berlin gezogen und arbeite jetzt bei Siemens.",
        "王, 10 May 2023: 我昨天搬到了北京，在一家银行工作。",
        "田中, 10 May 2023: 私はPythonでADKを使っています。",
        "Ana, 10 May 2023: J'habite à Paris depuis dix ans et je suis infirmière.",
    ]


# ---- when ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown", "at"),
    [
        ("I moved yesterday.", "I moved yesterday (9 May 2023).", (2023, 5, 9)),
        ("I met Bo last Tuesday.", "I met Bo last Tuesday (9 May 2023).", (2023, 5, 9)),
        ("I fly in two weeks? No, I'll fly in two weeks.",
         "I fly in two weeks (week of 22 May 2023)? "
         "No, I'll fly in two weeks (week of 22 May 2023).", (2023, 5, 22)),
        ("I did it in two weeks.", "I did it in two weeks.", None),
        ("We're meeting on Friday.", "We're meeting on Friday (12 May 2023).", (2023, 5, 12)),
        ("We met on Friday.", "We met on Friday (5 May 2023).", (2023, 5, 5)),
        ("Fridays are busy, on Friday too.", "Fridays are busy, on Friday too.", None),
        ("We'll marry in June.", "We'll marry in June (June 2023).", (2023, 6, 1)),
        ("We'll marry on 3 May.", "We'll marry on 3 May (3 May 2024).", (2024, 5, 3)),
        ("We married on 3 May.", "We married on 3 May (3 May 2023).", (2023, 5, 3)),
        ("I was there last weekend.", "I was there last weekend (6–7 May 2023).", (2023, 5, 6)),
        ("I left last year.", "I left last year (2022).", None),
        ("I made this last week.", "I made this last week (week of 1 May 2023).", (2023, 5, 1)),
        ("I left a few weeks ago.", "I left a few weeks ago (about 17 April 2023).", None),
        ("We agreed to freeze it on 1 December.",
         "We agreed to freeze it on 1 December (1 December 2023).", (2023, 12, 1)),
        ("I left on 8 May 2022.", "I left on 8 May 2022.", (2022, 5, 8)),
        ("I have run every Friday.", "I have run every Friday.", None),
        ("I've been here since Monday.", "I've been here since Monday.", None),
        ('He said "yesterday" to me.', 'He said "yesterday" to me.', None),
    ],
)  # fmt: skip
def test_times_are_dated_from_when_they_were_said(
    said: str, shown: str, at: tuple[int, int, int] | None
) -> None:
    found = dated(said, SAID_US, "UTC")
    assert found.text == shown
    expected = None if at is None else to_us(datetime(*at, tzinfo=UTC), "at")
    assert found.at == expected


def test_days_begin_where_the_extractor_is_told() -> None:
    late = turn(0, "Ann", "I moved yesterday to Oslo.", at=SAID_US + 9 * 3_600_000_000)  # 22:56 UTC
    (fact,) = RulesExtractor("Europe/Oslo").extract(window(late))
    assert fact.text == "Ann, 11 May 2023: I moved yesterday (10 May 2023) to Oslo."
    assert fact.occurred_at is not None
    assert from_us(fact.occurred_at) == datetime(2023, 5, 9, 22, tzinfo=UTC)


@pytest.mark.parametrize("at", [US_MIN, US_MAX])
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_the_first_and_last_hours_of_time_are_times_as_well(at: int, zone: str) -> None:
    """The zone's clock has no year there; in Kolkata this raised."""
    said = "I moved yesterday and will fly tomorrow, on Friday, in June and in two weeks."
    (fact,) = RulesExtractor(zone).extract(window(turn(0, "Ann", said, at=at)))
    assert fact.text.startswith("Ann, ")


def test_a_zone_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="no time zone"):
        RulesExtractor("Mars/Olympus")


# ---- what a newer fact replaces ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        ("I live in Oslo.", "ann: home"),
        ("We just moved to Oslo.", "ann: home"),
        ("I work at Siemens.", "ann: employer"),
        ("I work as a nurse.", "ann: job"),
        ("My favourite colour is green.", "ann: favourite colour"),
        ("My favorite ice cream is lemon.", "ann: favourite ice cream"),
        ("My new phone number is 555 0100.", "ann: phone"),
        ("The launch date is 3 June.", "launch date"),
        ("Our API version has changed to 3.", None),  # a name with capitals is not looked at
        ("Our release date was moved to Friday.", "release date"),
        ("I moved to the next level.", None),
        ("I used to live in Oslo.", None),
        ("I don't live in Oslo.", None),
        ("I might have moved to Oslo.", None),
        ("I like green.", None),
        ("Bo lives in Oslo.", None),
    ],
)
def test_subjects_are_of_what_holds_once(said: str, subject: str | None) -> None:
    assert subject_of(said, "Ann") == subject


def test_what_a_newer_fact_replaces_stands_alone() -> None:
    found = facts(chat("Ann: I live in Oslo. My brother Bo adopted a dog from the shelter."))
    assert [(fact.subject, fact.valid_from) for fact in found] == [
        ("ann: home", SAID_US), (None, None),
    ]  # fmt: skip


def test_what_somebody_asks_to_remember_weighs_more() -> None:
    plain, asked = told("I park in hall 7."), told("Remember that I park in hall 7.")
    weighty = told("I'm allergic to penicillin, says the doctor.")
    assert plain.importance < weighty.importance < asked.importance <= 10


# ---- any text ------------------------------------------------------------------------------------

_ROLES = st.sampled_from(["user", "assistant", "system", "tool_result", "thought", "", "narrator"])
_PIECES = st.sampled_from(
    ["I moved to Oslo. ", "yesterday ", "Where? ", "```\n", "![x](", ".", "\n", "。", "![a b c](x)",
     "on 31 February ", "next Friday we'll meet ", "Ann, ", "\ud83d", "\x00", "> ", "- ", "hi "]
)  # fmt: skip
_TEXTS = st.one_of(st.text(), st.lists(_PIECES, max_size=30).map("".join))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    turns = []
    for seq in range(draw(st.integers(0, 6))):
        turns.append(
            WindowTurn(
                seq * 2,
                draw(_ROLES),
                draw(st.one_of(st.none(), st.text(), st.sampled_from(["Ann", "Bo", "x" * 999]))),
                draw(_TEXTS),
                draw(st.one_of(st.just(SAID_US), st.integers(US_MIN, US_MAX))),
                draw(st.booleans()),
                draw(st.sampled_from([False, False, True])),
            )
        )
    return Window((), "s", tuple(turns))


@given(windows(), st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]))
def test_no_text_in_no_role_harms_it(of: Window, zone: str) -> None:
    """Facts are of fresh turns only, pass the check, and are the same each time."""
    extractor = RulesExtractor(zone)
    found = checked_facts(of, extractor.extract(of))
    fresh = {one.seq for one in extractable(of)}
    assert all({fact.first, fact.last} <= fresh for fact in found)
    assert len(found) <= FACTS_MAX
    assert pickle.loads(pickle.dumps(extractor)).extract(of) == found


def test_a_window_of_many_statements_gives_at_most_so_many_facts() -> None:
    lines = [f"Ann: I carried the parcel number {n} to the museum." for n in range(FACTS_MAX + 100)]
    assert len(facts(chat(*lines))) == FACTS_MAX


HARD: dict[str, Any] = {
    "one sentence": "I moved to Oslo and " * 50_000,
    "many sentences": "I moved to Oslo yesterday. " * 40_000,
    "dots": "." * 1_000_000 + "x",
    "questions": "?" * 1_000_000 + "x",
    "brackets": "![" * 500_000,
    "parentheses": "[a](" * 250_000,
    "blanks": " " * 1_000_000 + "x",
    "lines": "a\n" * 500_000,
    "backticks": "`" * 1_000_000,
    "ideographs": "我昨天搬到了北京" * 125_000,
    "interjections": "wow, " * 200_000,
    "capitals": "A" * 1_000_000,
    "gerunds": "ing " * 250_000,
    "quotes": '."' * 500_000,
}


@pytest.mark.parametrize("size", [300_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", HARD)
def test_a_megabyte_in_any_shape_takes_seconds_at_most(name: str, size: int) -> None:
    """What grew with the square of a text would not end within the time a test has."""
    text: str = HARD[name][-size:]
    assert len(facts(chat(f"Ann: {text}"))) <= FACTS_A_TURN_MAX
