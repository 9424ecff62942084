"""Synthetic long documents: headings, and paragraphs of words as in ``memories``. Everything
follows from the number of a document.
"""

from __future__ import annotations

import random
from functools import cache

from bench.memories import BLOCK, Corpus

CHARACTERS = 20_000
_PARAGRAPHS = 4 * BLOCK
_SENTENCES_EACH = 4  # paragraphs of about 1,000 characters
_PARAGRAPHS_EACH = 3  # under one heading


@cache
def _sentences() -> list[str]:
    corpus = Corpus(_PARAGRAPHS)
    return [memory.text.capitalize() + "." for memory in corpus.memories(0, _PARAGRAPHS)]


def document(number: int, characters: int = CHARACTERS) -> str:
    """Markdown of exactly so many characters."""
    draw = random.Random(number)
    sentences = _sentences()
    parts = [f"# Document {number}"]
    length = len(parts[0])
    while length < characters:
        title = " ".join(draw.choice(sentences).split()[:3])
        under = [f"## {title.rstrip('.')}"]
        under += [
            " ".join(draw.sample(sentences, _SENTENCES_EACH)) for _ in range(_PARAGRAPHS_EACH)
        ]
        parts += under
        length += sum(map(len, under)) + 2 * len(under)
    return "\n\n".join(parts)[:characters]
