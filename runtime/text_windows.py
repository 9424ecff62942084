"""Cuts a text that is longer than a model's window into overlapping parts. Pure.

Every character is in at least one part, no part has more tokens than the window, and the parts come
in the text's order, no more than are needed and of about the same size: a full one and a short rest
say less of what they hold (measured, ``bench/bench_planted.py``). Cuts fall between words where
there are any.
"""

from __future__ import annotations

from collections.abc import Callable

OVERLAP = 8  # an eighth of a part is also in the next one
NEAR = 4  # a cut moves back to a space within the last quarter of its part
SPARE = 2  # tokens that a part loses since it ends between words, about
GUESS = 4  # characters that a token has, about


def windows(text: str, tokens: Callable[[str], int], tokens_max: int) -> list[str]:
    """``text`` itself where it fits ``tokens_max``, else its parts, in order.

    ``tokens`` counts; it is asked about ten times for each part, for texts of about a part's
    length. A single character is taken to fit.
    """
    return [text[start:stop] for start, stop in spans(text, tokens, tokens_max)]


def spans(text: str, tokens: Callable[[str], int], tokens_max: int) -> list[tuple[int, int]]:
    """Where the windows begin and end."""
    total = tokens(text)
    if total <= tokens_max:
        return [(0, len(text))]
    tokens_max = _even(total, tokens_max)
    found = []
    start = reached = 0
    while reached < len(text):
        stop = _fitting(text, start, tokens, tokens_max)
        if stop <= reached:  # so dense that the overlap alone filled the window
            start = reached
            stop = _fitting(text, start, tokens, tokens_max)
        found.append((start, stop))
        reached = stop
        start = _next_word(text, stop - (stop - start) // OVERLAP, stop)
    return found


def _even(total: int, tokens_max: int) -> int:
    """What each part may have so that as many parts as ``total`` tokens need are alike."""
    parts = -(-(OVERLAP * total - tokens_max) // ((OVERLAP - 1) * tokens_max))
    size = -(-OVERLAP * total // ((OVERLAP - 1) * parts + 1))
    return min(tokens_max, size + SPARE)


def _fitting(text: str, start: int, tokens: Callable[[str], int], tokens_max: int) -> int:
    """Where a part that begins at ``start`` ends."""
    fits, size = start + 1, tokens_max * GUESS
    while start + size < len(text) and tokens(text[start : start + size]) <= tokens_max:
        fits, size = start + size, size * 2
    over = min(start + size, len(text) + 1)
    if over > len(text) and tokens(text[start:]) <= tokens_max:
        return len(text)
    while over - fits > 1:
        middle = (fits + over) // 2
        if tokens(text[start:middle]) <= tokens_max:
            fits = middle
        else:
            over = middle
    for stop in range(fits, fits - (fits - start) // NEAR, -1):
        # The words of a part that fits, less the last, fit as well.
        if text[stop - 1].isspace() or (stop < len(text) and text[stop].isspace()):
            return stop
    return fits


def _next_word(text: str, start: int, stop: int) -> int:
    """The first beginning of a word in ``start..stop``; ``start`` where there is none."""
    for begin in range(start, stop):
        if begin == 0 or text[begin - 1].isspace():
            return begin
    return start
