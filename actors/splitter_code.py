"""The outline of source code, in whatever language: what stands at the margin after a blank line,
definitions, blank lines, lines. Names of definitions serve as headings.
"""

from __future__ import annotations

from neverforget.actors.splitter_kinds import DEFINITION
from neverforget.actors.splitter_outline import (
    BLOCK,
    GLUED,
    ITEM,
    LINE,
    LINES,
    PART,
    Heading,
    Outline,
)

_COMMENT = ("#", "//", "/*", "*", "@", "--", '"""')


class CodeReader:
    """Source code: what stands at the margin after a blank line, definitions, blank lines."""

    def __init__(self, text: str) -> None:
        self.outline = outline = Outline()
        blank = True
        led = False  # a comment or decorator stands directly before
        open_depths: list[int] = []
        for found in LINES.finditer(text):
            if found.lastgroup == "blank":
                blank, led = True, False
                continue
            start, (content, stop) = found.start(), found.span("line")
            indented = content - start
            line = text[content : min(stop, content + 200)]
            defines = DEFINITION.match(line) is not None
            closes = line[0] in "})]"
            if start:
                outline.at.append(start)
                outline.worth.append(self._worth(blank, led, defines, closes, indented))
            while open_depths and open_depths[-1] >= 1 + indented and not closes:
                open_depths.pop()
                outline.headings.append(Heading(start, start, 1 + indented, titled=False))
            if defines:
                outline.headings.append(Heading(start, stop, 1 + indented))
                open_depths.append(1 + indented)
            led = line.startswith(_COMMENT)
            blank = False

    @staticmethod
    def _worth(blank: bool, led: bool, defines: bool, closes: bool, indented: int) -> int:
        if closes:
            return GLUED
        if blank:
            return max(PART - 5 * min(indented, 8), ITEM - 5)
        if defines and not led:
            return max(BLOCK - 5 * min(indented, 8), LINE)
        return max(LINE - min(indented, 16), GLUED)
