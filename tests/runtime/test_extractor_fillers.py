"""What the offline extractor leaves out, kind by kind, and what is alike and must stay."""

from __future__ import annotations

import pytest

from neverforget.runtime.extractor_dates import dated
from neverforget.runtime.extractor_rules import RulesExtractor
from neverforget.runtime.extractor_subjects import subject_of
from tests.runtime.extraction_windows import SAID_US, chat


def texts(*lines: str) -> list[str]:
    return [fact.text for fact in RulesExtractor().extract(chat(*lines))]


@pytest.mark.parametrize(
    "said",
    [
        # cheer, and promises of the moment
        "I'm pushing on though.", "We'll keep going and never give up!", "I'm staying positive.",
        "We'll keep pushing each other.", "I'll stay motivated and keep going.",
        "I'll definitely give it a try and see.", "I'll take your advice.", "Can't wait for it!",
        "We'll make some awesome memories!", "I'll reach out if I need it.", "Thanks, I will.",
        "We'll definitely have a great time on our hike!", "I'm ready for it!",
        # wishes, guesses and praise
        "I wish I had known you back then!", "I hope I can hear you play the violin some day.",
        "Winning a tough game must have been such an exhilarating experience!",
        "I'm in awe of your courage.", "Wow, An, I'm so stoked for you that painting helps!",
        "I love how you use it to tell your old stories.", "Excited to see what's next!",
        "Your health is special, and I believe in you.", "Sorry about your job.",
        "Love the colours and the chilled-out sunset vibe.",
        "It's tough when it comes out of nowhere, but I'm proud of how you're handling it.",
        # advice, and what everybody knows
        "Remember to focus on a balanced diet and easy exercises.", "Don't forget the details!",
        "Cherish those family moments.", "By the way, look how I organized my workplace!",
        "Nature can be so peaceful and help us find calm inside.",
        "We all need to look after ourselves.",
        # what nothing stands before
        "I got them online - they're super comfy!", "Mine gets together all the time too.",
        # news that there is some
        "A lot's been going on in my life!", "Something funny happened last night.",
    ],
)  # fmt: skip
def test_what_tells_nothing_alone_is_left_out(said: str) -> None:
    assert texts("Anna: Hello.", f"Bo: {said}") == []


@pytest.mark.parametrize(
    "said",
    [
        "I'm excited to study marine biology in Bergen.", "I can't wait to see Edinburgh.",
        "I hope to move to Oslo in 2024.", "Thanks, but I have sold the old boat already.",
        "Something awesome happened - I'm writing articles about fantasy novels.",
        "It's been a rough week - I gave in and bought some unhealthy snacks.",
        "I know how to drive a truck.", "We won!", "I'm vegan.", "I met him in Oslo.",
        "Our team has 40 people.", "The tests must be green before we merge.",
        "This is my book collection so far.", "I keep bees in the old garden.",
    ],
)  # fmt: skip
def test_what_looks_alike_and_tells_something_is_kept(said: str) -> None:
    assert texts("Anna: Hello.", f"Bo: {said}") == [f"Bo, 10 May 2023: {said}"]


def test_an_answer_far_behind_a_question_is_none() -> None:
    turned = "I bought seven chairs. I sold the table on Monday. The old lamps are from Bergen."
    (found,) = texts("Ann: Do you have any tips for me?", f"Bo: Good one! {turned}")
    assert found.startswith("Bo, 10 May 2023: I bought seven chairs.")
    assert texts("Ann: Is there anything you are keen to see?", "Bo: Yep!") == []
    assert texts("Ann: Got any tips for sailing?", "Bo: Yep!") == []
    assert texts("Ann: Is the boat sold?", "Bo: Yes please!") != []
    assert texts("Ann: How are your two cats?", "Bo: Yeah, I sold the boat.") == [
        "Bo, 10 May 2023: Yeah, I sold the boat."
    ]


def test_what_shows_something_needs_nothing_before_it() -> None:
    found = texts("Ann: I sold the boat in Bergen.", "Bo: This is my cat, she is from Oslo.")
    assert found[1] == "Bo, 10 May 2023: This is my cat, she is from Oslo."


def test_what_is_told_in_front_of_a_question_is_kept() -> None:
    told = "I'm moving to Bergen with my brother"
    for asked in (", can you help me with the boxes?", " - can you believe it?"):
        assert texts(f"Ann: {told}{asked}", "Bo: Sure!") == [f"Ann, 10 May 2023: {told}."]


@pytest.mark.parametrize(
    "said",
    # It said 12 September of the year before: "found" is past, and the flight is not.
    ["I found a flight on 12 September.", "It feels like just yesterday that we married."],
)
def test_times_that_are_none_or_not_clear_are_left_alone(said: str) -> None:
    assert dated(said, SAID_US, "UTC") == (said, None)


def test_just_yesterday_is_yesterday() -> None:
    found = dated("I arrived just yesterday.", SAID_US, "UTC").text
    assert found == "I arrived just yesterday (9 May 2023)."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("My sister is coming on the weekend.", "(13–14 May 2023)"),
        ("We had fun on the weekend.", "(6–7 May 2023)"),
        ("We went there this weekend.", "(6–7 May 2023)"),
        ("We'll meet this weekend.", "(13–14 May 2023)"),
        ("It was sold last weekend.", "(6–7 May 2023)"),
        ("A place for the weekend.", None),
    ],
)
def test_a_weekend_is_the_one_that_comes_or_the_last_one(said: str, shown: str | None) -> None:
    """It was the last one even of who is coming."""
    found = dated(said, SAID_US, "UTC").text
    assert found == (said if shown is None else f"{said[:-1]} {shown}.")


def test_what_is_asked_for_from_now_on_is_kept() -> None:
    said = "please answer in bullet points from now on"
    (fact,) = RulesExtractor().extract(chat(f"Bo: {said}"))
    assert (fact.text, fact.type) == (f"Bo, 10 May 2023: {said}", "preference")


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        ("My favourite thing is Hawaiian pizza.", None),
        ("My favorite part is the end.", None),
        ("My favorite one is by Dune's author.", None),
        ("My favourite holiday memory is the lake.", None),
        ("My favorite book is Dune.", "ann: favourite book"),
        ("We moved to PostgreSQL.", None),
        ("We moved to Node.js.", None),
        ("When I moved to Oslo, I was 3.", None),
        ("Call me Monday.", None),
        ("Call me Al.", "ann: name"),
        ("My birthday is coming up.", None),
        ("My birthday is on 5 May.", "ann: birthday"),
        ("The deadline is close.", None),
        ("The deadline is 3 June.", "deadline"),
        ("The price is 30 euros.", None),
        ("The ticket price is 30 euros.", "ticket price"),
        ("The next release date is Friday.", None),
    ],
)
def test_subjects_are_of_what_there_is_one_of(said: str, subject: str | None) -> None:
    assert subject_of(said, "Ann") == subject
