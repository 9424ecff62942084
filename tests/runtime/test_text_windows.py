"""Windows of long texts: nothing is left out, nothing is too long, cuts fall between words."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from neverforget.runtime.text_windows import spans, windows
from neverforget.runtime.wordpiece import bert_uncased


def words(text: str) -> int:
    return len(text.split())


def word_pieces(text: str) -> int:
    return len(bert_uncased().ids(text))


def numbered(count: int) -> str:
    return " ".join(f"w{n}" for n in range(count))


def test_a_text_that_fits_is_its_own_window() -> None:
    for text in ("", "one", numbered(10), "  spaces  ", "\n"):
        assert windows(text, words, 10) == [text]


def test_parts_overlap_and_cover_the_text() -> None:
    text = numbered(1000)
    parts = windows(text, words, 100)
    placed = spans(text, words, 100)
    assert parts == [text[start:stop] for start, stop in placed]
    assert placed[0][0] == 0 and placed[-1][1] == len(text)
    for (_, stop), (start, _) in itertools.pairwise(placed):
        assert start < stop
        assert 5 <= words(text[start:stop]) <= 20
    assert max(map(words, parts)) <= 100
    assert len(parts) <= 12


def test_parts_are_alike_and_no_more_than_are_needed() -> None:
    """A chunk of 1,500 characters made one full window and one of the rest, which the model could
    tell less of: questions for a fact in it found it less often.
    """
    for count in range(101, 700, 7):
        parts = windows(numbered(count), words, 100)
        assert len(parts) == -(-(8 * count - 100) // 700)
        assert max(map(words, parts)) <= 1.5 * min(map(words, parts))


def test_cuts_fall_between_words() -> None:
    text = numbered(1000)
    for part in windows(text, words, 64):
        assert set(part.split()) <= set(text.split())


def test_text_without_spaces_is_cut_between_characters() -> None:
    text = "昨日は友達と山に登りました。天気がとても良くて。" * 100
    parts = windows(text, word_pieces, 254)
    assert all(0 < word_pieces(part) <= 254 for part in parts)
    assert len(parts) < 20


def test_a_dense_passage_after_a_sparse_one_makes_no_step_back() -> None:
    text = "a" + " " * 5000 + "≠" * 2000 + " " * 5000 + "b"
    placed = spans(text, word_pieces, 254)
    assert placed[0][0] == 0 and placed[-1][1] == len(text)
    assert all(word_pieces(text[start:stop]) <= 254 for start, stop in placed)
    assert all(a < b for (_, a), (_, b) in itertools.pairwise(placed))


@given(
    text=st.text(alphabet="ab \n.,é漢字≠한😀\u0301\x00", max_size=400),
    tokens_max=st.integers(min_value=4, max_value=30),
)
def test_every_character_is_in_a_window_and_no_window_is_too_long(
    text: str, tokens_max: int
) -> None:
    reached = 0
    for start, stop in spans(text, word_pieces, tokens_max):
        assert start <= reached and (stop > reached or stop == len(text))
        assert word_pieces(text[start:stop]) <= tokens_max
        reached = stop
    assert reached == len(text)
