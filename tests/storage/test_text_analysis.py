"""How text becomes words: scripts, accents, names in programs, and queries full of operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.storage.surrogates import escaped, is_plain
from neverforget.storage.text_analysis import (
    WORD_CHARACTERS_MAX,
    date_words,
    prepared,
    query_words,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", "Hello world"),
        ("Caroline's friends don't know O'Brien", "Caroline friends don know O Brien"),
        ("Caroline’s don’t", "Caroline don"),
        ("café naïve Ångström Straße", "cafe naive angstrom strasse"),
        ("Ελλάδα ΣΊΣΥΦΟΣ Ёлка İstanbul", "ελλαδα σισυφοσ елка istanbul"),
        ("שָׁלוֹם مُحَمَّد", "שלום محمد"),
        ("हिन्दी में", "हिन्दी में"),
        ("ＦＵＬＬ　ｗｉｄｔｈ ﬁne", "FULL width fine"),
        ("snake_case", "snake_case snake case"),
        ("getUserName", "getUserName get User Name"),
        ("HTTPServer v2", "HTTPServer HTTP Server v2"),
        ("C++ and C# on .NET", "C++ C and C# C on NET"),
        ("f(x) -> a[0] && b::c", "f x a 0 b c"),
        ("2023-05-08T10:00", "2023 05 08T10 00"),
        ("🎉 done🎉", "🎉 done 🎉"),
        ("私はADKです", "私 は 私は ADK で す です"),
        ("한국어", "한 국 어 한국 국어"),
        ("x\ud83dy\x00z\x1f", "x y z"),
        ("", ""),
        ("?!… — “”", ""),
    ],
)
def test_a_document_is_words_with_a_blank_between_them(text: str, words: str) -> None:
    assert prepared(text) == words


def test_a_query_uses_pairs_of_characters_where_it_has_them() -> None:
    assert query_words("使って") == ["使っ", "って"]
    assert query_words("字") == ["字"]


def test_stop_words_are_dropped_from_queries_unless_nothing_else_is_there() -> None:
    assert query_words("When did Caroline go to the museum?") == ["caroline", "go", "museum"]
    assert query_words("Who is she?") == ["who", "is", "she"]
    assert query_words("May and Will") == ["may", "will"]
    assert query_words("the cat THE Cat") == ["cat"]


@pytest.mark.parametrize(
    "query", ['"', "AND", ":*", "a OR NOT b", "text:secret", "(", "[1 TO 2]", "x~2", "x^9", "/.*/"]
)
def test_operators_are_words_or_nothing(query: str) -> None:
    assert all(word.isalnum() for word in query_words(query))


def test_the_beginning_of_a_very_long_word_counts() -> None:
    long = "x" * 500
    assert prepared(long) == query_words(long)[0] == "x" * WORD_CHARACTERS_MAX
    assert prepared("é" + long) == ("e" + long)[:WORD_CHARACTERS_MAX]


def test_dates_are_said_as_people_say_them() -> None:
    assert date_words(1_683_549_360_000_000) == "Monday 8 May 2023"
    assert date_words(-1) == "Wednesday 31 December 1969"


@given(st.text(st.characters(), max_size=300))
def test_any_text_gives_words_without_blanks_or_surrogates(text: str) -> None:
    for words in (prepared(text).split(" ") if prepared(text) else [], query_words(text)):
        for word in words:
            assert word and not any(c in word for c in " \t\n\r\0")
            assert len(word) <= WORD_CHARACTERS_MAX and is_plain(word)


@given(st.text(st.characters(), max_size=100))
def test_words_of_a_query_are_words_of_the_same_document(text: str) -> None:
    document = {word.lower() for word in prepared(text).split(" ")}
    assert set(query_words(text)) <= document


@given(st.text(st.characters(), max_size=50), st.text(st.characters(), max_size=50))
def test_escaped_text_is_utf8_and_tells_texts_apart(one: str, other: str) -> None:
    for text in (one, other):
        escaped(text).encode()  # does not raise
        assert (escaped(text) == text) == is_plain(text)
    block = [chr(code) for code in range(0x10F800, 0x110000)]
    if one != other and not any(c in one + other for c in block):
        assert escaped(one) != escaped(other)
