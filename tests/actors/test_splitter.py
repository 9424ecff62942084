"""Cutting long texts: pieces are the text, end where its structure does, and tell their path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.actors.splitter import CONTEXT_CHARACTERS_MAX, Piece, split
from neverforget.actors.splitter_graphemes import is_boundary

SENTENCE = "Refunds are paid within ten days of the claim being sent. "
PARAGRAPH = SENTENCE * 4


def pieces(text: str, target: int = 1_500, most: int = 2_000) -> list[str]:
    """The texts of the pieces, after looking at what holds for all of them."""
    found = split(text, target=target, most=most)
    check(text, found, most)
    return [text[one.start : one.stop] for one in found]


def check(text: str, found: list[Piece], most: int) -> None:
    at = 0
    for one in found:
        assert one.start == at < one.stop
        at = one.stop
        if one.stop - one.start > most:
            inner = range(one.start + 1, one.stop)
            assert not any(is_boundary(text, place, one.start) for place in inner)
        assert is_boundary(text, one.stop, one.start)
        assert one.context is None or 0 < len(one.context) <= CONTEXT_CHARACTERS_MAX
    assert at == len(text)


# ---- for any text --------------------------------------------------------------------------------

# fmt: off
awkward = st.sampled_from([
    "\r\n", "\r", "\n", "\n\n", " ", "\t", "\x00", "\x0c", "\u2028", "\ufeff", "\ud800",
    "# ", "## x\n", "- ", "  - a\n", "1. b\n", "```\n", "~~~", "| a | b |\n", "|---|---|\n",
    "===\n", "---\n", "> ", "Ann: hi\n", "**Bob:** yes\n", "def f(x):\n", "    return x\n",
    "class A {\n", "}\n", "a", ". ", "e\u0301", "\u0301", "🇩🇪", "👩\u200d👩\u200d👧", "👍🏽",
    "क्षि", "각", "한글", "\u1100", "這。", "「好！」", "Dr. Who", "3.14", "word ", "Title\n",
    "long" * 20, "。", "؟ ", "\u0600",
])
# fmt: on
texts = st.lists(st.one_of(awkward, st.text(max_size=8)), max_size=120).map("".join)


@given(texts, st.integers(1, 60), st.integers(0, 60))
def test_the_pieces_joined_are_the_text_and_no_piece_is_too_long(
    text: str, target: int, more: int
) -> None:
    pieces(text, target, target + more)


def test_an_empty_text_has_no_pieces_and_a_short_one_is_one() -> None:
    assert split("") == []
    assert split("short") == [Piece(0, 5, None)]


# ---- structure -----------------------------------------------------------------------------------


def test_a_piece_begins_at_a_heading_and_tells_what_it_stands_under() -> None:
    section = f"\n\n{PARAGRAPH * 5}\n\n"
    text = f"# Handbook\n\n## Travel{section}### Refunds{section}## Pay{section}"
    found = split(text)
    starts = [text[one.start :].split("\n")[0] for one in found]
    assert starts == ["# Handbook", "### Refunds", "## Pay"]
    assert [one.context for one in found] == [None, "Handbook > Travel", "Handbook"]


@pytest.mark.parametrize(
    "block",
    [
        "```python\n" + "\n".join(f"line_{n} = 'Stop. Go on.'\n" for n in range(50)) + "```\n",
        "| a | b |\n|---|---|\n" + "".join(f"| row {n}. Next | two |\n" for n in range(70)),
        "a | b\n--|--\n" + "".join(f"row {n}. Next | two\n" for n in range(80)),
        "".join(f"- step {n}. Do it\n  and wait\n" for n in range(60)),
        "1. one\n\n   ```\n" + "   x. Y\n\n" * 120 + "   ```\n\n2. two\n",
    ],
    ids=["fence", "table", "bare table", "list", "fence in a list"],
)
def test_a_block_that_fits_is_kept_whole(block: str) -> None:
    text = f"{PARAGRAPH * 3}\n\n{block}\n{PARAGRAPH * 6}\n"
    assert 1_000 < len(block) <= 2_000
    assert any(block in piece for piece in pieces(text))


def test_of_a_block_that_does_not_fit_the_lines_are_kept_whole() -> None:
    rows = "".join(f"| row {n}. Next | two |\n" for n in range(300))
    assert all(piece.endswith("|\n") for piece in pieces("| a | b |\n|---|---|\n" + rows))


def test_a_chat_is_cut_between_turns() -> None:
    turns = [f"[10:{n:02}] {('Ann', 'Bob')[n % 2]}: {SENTENCE * 5}\n" for n in range(30)]
    assert all(piece.startswith("[10:") for piece in pieces("".join(turns)))


def test_lists_and_paragraphs_of_a_turn_stay_with_it() -> None:
    turn = "User: how do I do it?\n\nAssistant: So.\n\n- first {n}\n- then\n\nAnd that was it.\n\n"
    text = "".join(turn.format(n=n) for n in range(90))
    assert {piece.split(":")[0] for piece in pieces(text)} <= {"User", "Assistant"}


def test_code_is_cut_between_definitions_and_tells_the_class() -> None:
    method = "    def work_{n}(self):\n" + "        self.value = call(1)\n" * 12 + "\n"
    text = "import os\n\n\nclass Engine:\n" + "".join(method.format(n=n) for n in range(20))
    found = split(text)
    assert all(text[one.start :].startswith("    def ") for one in found[1:])
    assert {one.context for one in found[1:]} == {"class Engine"}


def test_prose_is_cut_between_sentences_and_not_after_a_title_before_a_name() -> None:
    text = "He met Dr. Brown, i.e. the elder. " * 200
    assert all(piece.endswith("elder. ") for piece in pieces(text)[:-1])


def test_chinese_and_japanese_sentences_end_without_a_space() -> None:
    text = "退款在十天之内支付，如果收据齐全。「真的吗？」他问。" * 200
    assert all(piece.endswith("。") for piece in pieces(text))


def test_a_long_path_keeps_the_title_and_the_last_heading() -> None:
    text = f"# {'T' * 150}\n## {'M' * 150}\n### {'L' * 150}\n{PARAGRAPH * 20}"
    context = split(text)[-1].context
    assert context is not None and context.startswith("TTT") and context.endswith("LLL")


def test_a_number_and_a_name_between_blank_lines_are_a_heading() -> None:
    text = (
        f"Notes\n\n1. Budget\n\n{PARAGRAPH * 6}\n\n2. Hiring\n\n* {SENTENCE}\n* {SENTENCE * 30}\n"
    )
    found = split(text)
    assert [text[one.start :][:9] for one in found] == ["Notes\n\n1.", "2. Hiring"]
    assert [one.context for one in found] == [None, "Notes"]
    steps = "".join(f"{n}. Do the step of number {n}. {SENTENCE}\n\n" for n in range(60))
    assert {one.context for one in split(f"# Steps\n\n{steps}")[1:]} == {"Steps"}


def test_a_title_without_a_mark_is_one() -> None:
    text = f"Notes of the budget meeting\n\n{PARAGRAPH * 20}"
    assert split(text)[-1].context == "Notes of the budget meeting"


# ---- graphemes and sizes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grapheme", ["e\u0301\u0302", "🇩🇪", "👩\u200d👩\u200d👧\u200d👦", "क्षि", "각", "\r\n"]
)
def test_no_grapheme_is_cut_where_nothing_else_says_where_to_cut(grapheme: str) -> None:
    for lead in ("", "a", "ab"):
        for piece in pieces(lead + grapheme * 100, 20, 25):
            assert piece.removeprefix(lead).replace(grapheme, "") in ("", lead)


def test_a_grapheme_longer_than_a_piece_stays_whole() -> None:
    zalgo = "e" + "\u0301" * 5_000
    assert zalgo in pieces("a" * 100 + zalgo + "b" * 100)


@pytest.mark.parametrize(
    "unit", ["a", "\n", " ", "\r\n", "- a\n", "# a\n", "```\n", ">", "|-\n", "。", "\u0301", "क्"]
)
@pytest.mark.parametrize("size", [250_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_large_text_of_any_shape_is_split(unit: str, size: int) -> None:
    """A splitter that looks again at what it has passed would not end within the test's time."""
    found = split(unit * (size // len(unit)))
    assert found[-1].stop == size // len(unit) * len(unit)
