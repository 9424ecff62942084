"""BERT's uncased word pieces in pure Python: text to the ids that MiniLM was trained on.

The ids are those of the reference tokenizer: control characters go, CJK ideographs stand alone,
accents are taken off, letters become small, punctuation stands alone, and each word is cut into the
longest pieces that the vocabulary has. ``[CLS]`` and the like in a text are text, not commands.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import string
import unicodedata
from collections.abc import Callable
from functools import cache

VOCABULARY = "bert-uncased-vocab.txt"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
UNK, CLS, SEP = 100, 101, 102
WORD_CHARACTERS_MAX = 100  # the reference makes a longer word one unknown piece
WORDS_KEPT_MAX = 50_000  # the words of a language repeat: about 10 MB

_CJK = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)

# Also $ + < = > ^ ` | ~, which Unicode calls symbols.
_ASCII_PUNCTUATION = frozenset(string.punctuation)


class _Table(dict[int, str]):
    """For ``str.translate``: asks ``rule`` once for each character that it meets."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        self._rule = rule

    def __missing__(self, point: int) -> str:
        self[point] = made = self._rule(chr(point))
        return made


def _clean(character: str) -> str:
    if character in "\t\n\r":
        return " "
    # Not Cn: a character that is newer than Python's tables is unknown, but it does not vanish.
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    if character.isspace():
        return " "
    point = ord(character)
    return f" {character} " if any(low <= point <= high for low, high in _CJK) else character


def _fold(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Mn":
        return ""
    if category.startswith("P") or character in _ASCII_PUNCTUATION:
        return f" {character} "
    return character.lower()


class WordPiece:
    """Holds the vocabulary and the pieces of words already met. Used by many threads at once."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._first = {p: i for p, i in vocabulary.items() if not p.startswith("##")}
        self._later = {p[2:]: i for p, i in vocabulary.items() if p.startswith("##")}
        self._clean, self._fold = _Table(_clean), _Table(_fold)
        self._words: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> list[int]:
        """The ids of the pieces of ``text``, without [CLS] and [SEP]."""
        text = text.translate(self._clean)
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        found: list[int] = []
        for word in text.translate(self._fold).split():
            if len(word) > WORD_CHARACTERS_MAX:
                found.append(UNK)
                continue
            pieces = self._words.get(word)
            if pieces is None:
                if len(self._words) >= WORDS_KEPT_MAX:
                    self._words = {}
                pieces = self._words[word] = self._pieces(word)
            found.extend(pieces)
        return found

    def _pieces(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        start, known = 0, self._first
        while start < len(word):
            stop = len(word)
            while stop > start and word[start:stop] not in known:
                stop -= 1
            if stop == start:
                return (UNK,)
            found.append(known[word[start:stop]])
            start, known = stop, self._later
        return tuple(found)


@cache
def bert_uncased() -> WordPiece:
    """The tokenizer over the vocabulary in this package, read once a process (20 ms)."""
    file = importlib.resources.files("neverforget.runtime") / "models" / VOCABULARY
    raw = file.read_bytes()
    # Another vocabulary would give wrong vectors, and nothing would fail.
    if hashlib.sha256(raw).hexdigest() != VOCABULARY_SHA256:
        raise OSError(f"{VOCABULARY} of this installation is damaged; install neverforget again")
    return WordPiece({p: i for i, p in enumerate(raw.decode().split("\n")[:-1])})
