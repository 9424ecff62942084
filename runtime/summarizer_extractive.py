"""A summary made of the text's own sentences: offline, and the same on every machine.

Each sentence is weighed by how much of what the whole text speaks of it holds (the centroid of its
words), sentences that repeat one that was taken count less, and what is taken stands in the order
of the text. Radev et al., "Centroid-based summarization of multiple documents" (2004); the penalty
is that of Carbonell and Goldstein, "The use of MMR" (1998).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from neverforget.storage.text_analysis import query_words

CHARACTERS_MAX: Final = 600
SENTENCES_MAX: Final = 2_000  # of a longer text, as many that lie evenly in it
_WORDS_MIN = 5  # a sentence of fewer words says little by itself
_FIRST = 1.3  # what the first sentence counts more: it says what a text is about
_REPEATED = 0.7  # how much of what was said already is taken off

_FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_NO_PROSE = re.compile(r"^\s*(?:#{1,6}\s|\||[-=*_]{3,}\s*$|<[^>]+>\s*$)")
_ITEM = re.compile(r"^\s*(?:[-*+•]\s+|\d{1,3}[.)]\s+)")
_SPEAKER = re.compile(r"^\s*[\w .@-]{1,30}:\s")
_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+[」』”’）]*|$)", re.DOTALL)


class ExtractiveSummarizer:
    """A ``Summarizer``. ``characters_max``: of a summary."""

    summarizer_id = "extractive-1"

    def __init__(self, characters_max: int = CHARACTERS_MAX) -> None:
        self._characters_max = characters_max

    def summarize(self, text: str, /) -> str:
        """Sentences of ``text`` with a blank between them; its beginning where it has none, nothing
        where there is nothing but white space.
        """
        found = _spread(list(dict.fromkeys(sentences(text))))
        words = [Counter(query_words(sentence)) for sentence in found]
        weights = _weights(words)
        taken: list[int] = []
        said: set[str] = set()
        left = self._characters_max
        fitting = {n for n, sentence in enumerate(found) if len(words[n]) >= _WORDS_MIN}
        while fitting:
            fitting = {n for n in fitting if len(found[n]) <= left}
            best = max(
                fitting, key=lambda n: (_score(words[n], weights, said, n), -n), default=None
            )
            if best is None:
                break
            fitting.discard(best)
            if not _score(words[best], weights, said, best):
                break
            taken.append(best)
            said.update(words[best])
            left -= len(found[best]) + 1
        if not taken:
            return _beginning(text, self._characters_max)
        return " ".join(found[n] for n in sorted(taken))


def sentences(text: str) -> Iterator[str]:
    """Of the prose in ``text``, in order, white space made plain; items of lists and turns of a
    transcript are sentences of their own.
    """
    for paragraph in _paragraphs(_FENCE.sub("\n\n", text)):
        for match in _SENTENCE.finditer(paragraph):
            if sentence := " ".join(match[0].split()):
                yield sentence


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.splitlines():
        begins = _ITEM.match(line) or _SPEAKER.match(line)
        if lines and (begins or not line.strip() or _NO_PROSE.match(line)):
            yield "\n".join(lines)
            lines = []
        if line.strip() and not _NO_PROSE.match(line):
            lines.append(_ITEM.sub("", line))
    if lines:
        yield "\n".join(lines)


def _spread(found: list[str]) -> list[str]:
    """At most SENTENCES_MAX of them, the first among them."""
    step = -(-len(found) // SENTENCES_MAX) or 1
    return found[::step]


def _weights(words: list[Counter[str]]) -> dict[str, float]:
    """What each word counts: how many sentences hold it; one that stands in one only says little
    of the whole.
    """
    holders = Counter(word for each in words for word in each)
    return {word: math.log(count) for word, count in holders.items()}


def _score(words: Counter[str], weights: dict[str, float], said: set[str], number: int) -> float:
    total = sum(weights[word] * (1 - _REPEATED * (word in said)) for word in words)
    first = _FIRST if number == 0 else 1.0
    return first * total / math.sqrt(len(words))


def _beginning(text: str, characters_max: int) -> str:
    plain = " ".join(text[: 4 * characters_max].split())
    if len(plain) <= characters_max:
        return plain
    cut = plain.rfind(" ", characters_max // 2, characters_max)
    return plain[: cut if cut > 0 else characters_max]
