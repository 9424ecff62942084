"""Where a text may be cut, how good each place is, and which headings it has. Made by
``splitter_prose`` and ``splitter_code``, read by ``splitter``.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# What a place to cut is worth; a target's length away from the target costs 100.
HEADING: Final = (120, 120, 110, 100, 90, 90, 90)  # by depth; 0 is a title without a mark
PART: Final = 80  # a rule in markdown, what stands at the margin in code
BLOCK: Final = 60  # a paragraph, a turn, a table
ITEM: Final = 45
ROW: Final = 35
SENTENCE: Final = 25
LINE: Final = 20
SOFT: Final = 5  # a line that goes on
GLUED: Final = 1  # what belongs to the line before: the text under its heading

TITLE_CHARACTERS_MAX: Final = 100

# Blank lines together, or one other line: nothing is looked at twice.
LINES: Final = re.compile(
    r"(?P<blank>(?:[ \t]*+(?:\r\n|\n|\r))++)|[ \t]*(?P<line>[^\n\r]++(?:\r\n|\n|\r)?)"
)


class Heading(NamedTuple):
    """``stop``: of its line. ``depth`` 0 is a title. Without a title: what is as deep has ended."""

    at: int
    stop: int
    depth: int
    titled: bool = True


@dataclass
class Outline:
    """``at``, ascending, and ``worth`` of the places to cut; ``whole``: starts and stops of the
    blocks that no piece is to end in.
    """

    at: array[int] = field(default_factory=lambda: array("Q"))
    worth: array[int] = field(default_factory=lambda: array("B"))
    headings: list[Heading] = field(default_factory=list)
    whole: tuple[array[int], array[int]] = field(default_factory=lambda: (array("Q"), array("Q")))

    def whole_around(self, place: int) -> tuple[int, int] | None:
        """The block to be kept whole that ``place`` lies within, its ends not counted."""
        starts, stops = self.whole
        at = bisect_right(starts, place) - 1
        if at >= 0 and starts[at] < place < stops[at]:
            return starts[at], stops[at]
        return None
