"""Names out of what is embedded, and whom a query names."""

from __future__ import annotations

import pytest

from neverforget.actors.query_preparation import (
    PreparedQuery,
    Speakers,
    prepare_query,
    prepare_text,
)

PAIR = Speakers(["Ylva", "Tomasz"])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Wow, Ylva! You finished it?", "Wow, ! You finished it?"),
        ("What is Ylva's sister called", "What is sister called"),
        ("what does tomasz\u2019s cat eat", "what does cat eat"),
        ("YLVA went, Tomasz stayed", "went, stayed"),
        ("Nothing  of that\nkind", "Nothing  of that\nkind"),
        ("Ylvania is a place", "Ylvania is a place"),
        ("Ylva", "Ylva"),
        ("Tomasz?!", "Tomasz?!"),
        ("", ""),
    ],
)
def test_names_of_speakers_are_taken_out_of_what_is_embedded(text: str, left: str) -> None:
    assert prepare_text(text, PAIR) == left


def test_a_query_keeps_its_words_and_says_whom_it_names() -> None:
    assert prepare_query("When did Ylva paint the barn?", PAIR) == PreparedQuery(
        "When did Ylva paint the barn?", "When did paint the barn?", "Ylva"
    )
    assert prepare_query("Did Ylva meet Tomasz?", PAIR).speaker is None
    assert prepare_query("Who painted the barn?", PAIR).speaker is None
    assert prepare_query("Ylva's Ylva", PAIR).speaker == "Ylva"


def test_a_name_that_is_a_word_counts_only_as_it_is_spelled() -> None:
    some = Speakers(["Will", "May"])
    assert some.masked("Will she, or may she not?") == "she, or may she not?"
    assert some.named("what will happen in may") == set()
    assert some.named("what has Will said") == {"Will"}


def test_roles_are_no_names() -> None:
    roles = Speakers(["user", "assistant", "Ylva", "", "  "])
    assert roles.masked("the user asked the assistant of Ylva") == "the user asked the assistant of"


def test_full_names_are_known_by_each_part_and_told_apart_where_they_can_be() -> None:
    family = Speakers(["Ylva Berg", "Tomasz Berg"])
    assert family.masked("Ylva told Mr Berg") == "told Mr"
    assert family.named("what did Ylva Berg say") == {"Ylva Berg"}
    assert family.named("what did the Berg family say") == {"Ylva Berg", "Tomasz Berg"}


def test_names_in_scripts_without_blanks_are_found_inside_a_run() -> None:
    some = Speakers(["\u5c0f\u660e"])
    assert some.masked("\u6628\u5929\u5c0f\u660e\u53bb\u4e86\u5317\u4eac") == (
        "\u6628\u5929\u53bb\u4e86\u5317\u4eac"
    )
    assert some.named("\u5c0f\u660e\u53bb\u4e86\u54ea\u91cc") == {"\u5c0f\u660e"}


def test_without_speakers_nothing_changes() -> None:
    assert prepare_query("Anything  at all", Speakers()) == PreparedQuery(
        "Anything  at all", "Anything  at all", None
    )
