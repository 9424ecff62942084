"""Word pieces against golden ids, taken from the reference tokenizer (tokenizers 0.23.3)."""

from __future__ import annotations

import pytest

from neverforget.runtime.wordpiece import UNK, WordPiece, bert_uncased

# Text -> its ids.
GOLDEN: dict[str, str] = {
    "": "",
    "Hello, World!": "7592 1010 2088 999",
    "it's 3:45pm -- don't_stop @home #tag $5 <b>x=y^2|~`": (
        "2009 1005 1055 1017 1024 3429 9737 1011 1011 2123 1005 1056 1035 2644 1030 "
        "2188 1001 6415 1002 1019 1026 1038 1028 1060 1027 1061 1034 1016 1064 1066 "
        "1036"
    ),
    "unaffable embeddings tokenisation": "14477 20961 3468 7861 8270 4667 2015 19204 6648",
    "Crème Brûlée à Zürich, naïve façade; Ångström": (
        "13675 21382 7987 9307 2063 1037 10204 1010 15743 8508 1025 17076 15687"
    ),
    "İstanbul ΣΊΣΥΦΟΣ straße ﬁn Ǆ": (
        "9960 1173 18199 29733 29735 29736 29730 29733 2358 27807 1984 2078 100"
    ),
    "私はPythonでADKを使っています": (
        "100 1672 7685 2705 2239 30191 4215 2243 30216 100 1663 30191 30173 30203 30184"
    ),
    "中文分词 测试，好！": "1746 1861 1775 100 100 100 1989 100 1986",
    "한국어 텍스트": (
        "1469 30006 30021 29991 30014 30020 29999 30008 1467 30009 30020 29997 30017 30003 30017"
    ),
    "Привет, мир": "1194 16856 10325 25529 15290 22919 1010 1191 10325 16856",
    "שלום עולם مرحبا": (
        "1266 29799 29792 29800 1259 29792 29799 29800 1295 17149 29820 29816 25573"
    ),
    "हिन्दी ไทย": "1339 29877 29863 29861 29878 100",
    "a\x00b\x01c\x7fd\x85e\u200be\xadf\ufeffg\ufffdh\ue000i": "5925 26095 2546 28891",
    "tab\tline\nreturn\rfeed\x0cvert\x0bsep\x1cnbsp\xa0wide\u3000line\u2028end": (
        "21628 2240 2709 5438 16874 3366 2361 27698 13102 2898 2240 2203"
    ),
    "e\u0301 n\u0303 \u0301alone q\u0338": "1041 1050 2894 1053",
    "emoji \U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f": (
        "7861 29147 2072 100 100 100"
    ),
    "[CLS] [SEP] [UNK] [MASK] [PAD] ##ing": (
        "1031 18856 2015 1033 1031 19802 1033 1031 4895 2243 1033 1031 7308 1033 1031 "
        "11687 1033 1001 1001 13749"
    ),
    'def f(x): return x**2  # C++ "quoted" AND :*': (
        "13366 1042 1006 1060 1007 1024 2709 1060 1008 1008 1016 1001 1039 1009 1009 "
        "1000 9339 1000 1998 1024 1008"
    ),
    "“quotes” … – — ‘it’ · «x» ¿qué?": (
        "1523 16614 1524 1529 1516 1517 1520 2009 1521 1087 1077 1060 1090 1094 10861 1029"
    ),
    "\u8c48 \u4e3d \U00020000 \U0002a6df": "100 100 100 100",
    "1234567890 3.14159 1e-9 0xdeadbeef": (
        "13138 19961 2575 2581 2620 21057 1017 1012 15471 28154 1015 2063 1011 1023 "
        "1014 2595 3207 4215 11306 2546"
    ),
    "https://example.org/a/b?c=d&e=f": (
        "16770 1024 1013 1013 2742 1012 8917 1013 1037 1013 1038 1029 1039 1027 1040 "
        "1004 1041 1027 1042"
    ),
}


@pytest.fixture(scope="module")
def pieces() -> WordPiece:
    return bert_uncased()


@pytest.mark.parametrize("text", GOLDEN, ids=ascii)
def test_ids_are_those_of_the_reference(pieces: WordPiece, text: str) -> None:
    assert pieces.ids(text) == [int(n) for n in GOLDEN[text].split()]


@pytest.mark.parametrize(("character", "first", "later"), [("a", 13360, 11057), ("é", 25212, 4402)])
def test_a_word_of_more_than_a_hundred_characters_is_one_unknown_piece(
    pieces: WordPiece, character: str, first: int, later: int
) -> None:
    found = pieces.ids(character * 100)
    assert found[0] == first and set(found[1:-1]) == {later}
    assert pieces.ids(character * 101) == [UNK]


def test_characters_that_are_newer_than_the_tables_are_unknown_and_do_not_vanish(
    pieces: WordPiece,
) -> None:
    assert pieces.ids("a \U0003fffd b") == [1037, UNK, 1038]  # a code point without a character


def test_lone_surrogates_do_no_harm(pieces: WordPiece) -> None:
    assert pieces.ids("x\ud83dy") == pieces.ids("xy")


def test_a_text_is_its_words_one_after_the_other(pieces: WordPiece) -> None:
    """What windows rely on: whitespace parts a text for good."""
    text = " ".join(GOLDEN)
    assert pieces.ids(text) == [n for word in text.split(" ") for n in pieces.ids(word)]


def test_words_met_before_give_the_same_ids(pieces: WordPiece) -> None:
    assert [pieces.ids("Tokenisation, again") for _ in range(3)] == [[19204, 6648, 1010, 2153]] * 3


def test_the_whole_vocabulary_is_there_once(pieces: WordPiece) -> None:
    assert bert_uncased() is pieces
    assert pieces.ids("zywiec") != [] and pieces.ids("！ ？ ～") == [1986, 1994, 1995]
