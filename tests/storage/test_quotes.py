"""Which texts stand in another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neverforget.storage.quotes import Quotes, stands_in

LETTERS = st.text(alphabet="ab .", max_size=30)


def test_whole_words_are_meant() -> None:
    quotes = Quotes(["Yes", "C++", "it rained."])
    assert not quotes.stand_in("Yesterday or DryYes")
    assert quotes.cut_from("He said: Yes. Yes!") == "He said:  .  !"
    assert quotes.cut_from("in C++ and it rained.Then") == "in   and  Then"
    assert quotes.stand_in("Yes")
    assert not quotes.stand_in("")


def test_a_long_text_is_found_wherever_it_stands() -> None:
    quotes = Quotes(["the number is 0170 1234567"])
    assert quotes.stand_in("xthe number is 0170 1234567y")


def test_scripts_without_blanks_are_searched_by_characters() -> None:
    assert (
        Quotes(["使って"]).cut_from("私はPythonでADKを使っています") == "私はPythonでADKを います"
    )
    assert Quotes(["Python"]).stand_in("私はPythonで")


def test_the_longest_that_fits_is_taken_and_surrogates_are_text() -> None:
    quotes = Quotes(["red", "red wine", "x\ud83dy"])
    assert quotes.cut_from("red wine and red") == "  and  "
    assert quotes.stand_in("(x\ud83dy)")


def test_what_is_discarded_is_found_no_more_unless_another_owns_it() -> None:
    quotes = Quotes()
    quotes.add(1, " same ")
    quotes.add(2, "same")
    assert quotes.discard(1)
    assert not quotes.discard(1)
    assert quotes.stand_in("the same")
    quotes.add(2, "other")
    assert not quotes.stand_in("the same")
    assert quotes.discard(2)
    assert len(quotes) == 0
    assert not quotes.stand_in("the other")
    quotes.add(3, "  ")
    assert len(quotes) == 0


def tried(wanted: str, text: str) -> bool:
    """By trying every place."""
    for at in range(len(text) - len(wanted) + 1):
        stop = at + len(wanted)
        before = at > 0 and text[at - 1].isalpha() and wanted[0].isalpha()
        after = stop < len(text) and text[stop].isalpha() and wanted[-1].isalpha()
        if text.startswith(wanted, at) and not before and not after:
            return True
    return False


@given(st.lists(LETTERS, max_size=6), LETTERS)
def test_it_finds_what_trying_each_of_them_finds(texts: list[str], text: str) -> None:
    wanted = [each.strip() for each in texts if each.strip() and len(each.strip()) < 24]
    assert Quotes(wanted).stand_in(text) is any(tried(each, text) for each in wanted)
    for each in wanted:
        assert stands_in(each, text) is tried(each, text)
