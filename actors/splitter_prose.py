"""The outline of markdown, of chats, and of text without any mark. One pass over its lines.

Headings (``#``, underlined, numbered), lists, tables and fenced code, paragraphs, turns. A list,
table or fence that fits into a piece has no place to cut within; of a longer one the items, rows
and lines are places.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from neverforget.actors.splitter_kinds import speaker
from neverforget.actors.splitter_outline import (
    BLOCK,
    GLUED,
    HEADING,
    ITEM,
    LINE,
    LINES,
    PART,
    ROW,
    SENTENCE,
    SOFT,
    TITLE_CHARACTERS_MAX,
    Heading,
    Outline,
)

_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_ITEM = re.compile(r"(?:[-*+•]|\d{1,9}[.)])[ \t]")
_UNDERLINE = re.compile(r"(?:(=+)|-{3,})[ \t]*$")
_RULE = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_TABLE_RULE = re.compile(
    r"\|?[ \t]*:?-{1,200}:?[ \t]*(?:\|[ \t]*:?-{1,200}:?[ \t]*){0,100}\|?[ \t]*$"
)
_GOES_ON = re.compile(r"[a-z,;)]")
_NO_TITLE = tuple(".!?:;,。！？…．｡।")


class _Block(NamedTuple):
    """A list, table or fence that is open. ``mark``: how many places there were at its begin."""

    start: int
    mark: int
    fence: str = ""


class ProseReader:
    """Markdown, chats, and text without any mark."""

    def __init__(self, text: str, most: int, *, chat: bool) -> None:
        self.text, self._most, self._chat = text, most, chat
        self.outline = Outline()
        self._fence: _Block | None = None
        self._list: _Block | None = None
        self._list_lines = 0  # of the open list so far
        self._table: _Block | None = None
        self._blank = True  # a blank line, or nothing, stands before
        self._after_heading = False
        self._last = (0, 0)  # the line before, without its indent
        self._plain_lines = 0  # of this paragraph so far
        self._seen_text = False
        for found in LINES.finditer(text):
            if found.lastgroup == "blank":
                self._blank_lines(found.start())
            else:
                self._line(found.start(), *found.span("line"))
        self._close_all(len(text))

    # ---- lines -----------------------------------------------------------------------------------

    def _blank_lines(self, start: int) -> None:
        if self._fence is None:
            self._close_table(start)
            self._title(start)
            self._blank, self._plain_lines = True, 0
        else:
            self._blank = True

    def _title(self, stop: int) -> None:
        """A first line that stands alone, short and no sentence, is the title."""
        if self._seen_text or not self._plain_lines:
            return
        self._seen_text = True
        start, end = self._last
        line = self.text[start:end].rstrip()
        alone = self._plain_lines == 1 and len(line) <= TITLE_CHARACTERS_MAX
        alone = alone and not self.outline.headings and not line.endswith(_NO_TITLE)
        if alone and not (self._chat and speaker(line)):
            self.outline.headings.append(Heading(start, end, 0))
            self._after_heading = True

    def _line(self, start: int, content: int, stop: int) -> None:
        text, indented = self.text, content - start
        first = text[content]
        if self._fence is not None:
            self._in_fence(start, content, stop)
        elif first in "`~" and (opened := _FENCE.match(text, content)):
            self._open_fence(start, indented, opened[1])
        elif first == "#" and indented < 4 and (mark := _HEADING.match(text, content)):
            self._heading(start, stop, len(mark[1]))
        elif (
            (first in "=-" and self._underlines(start, content, stop))
            or (first in "*-_" and indented < 4 and self._rules(start, content, stop))
            or ((self._table or first in "|:-") and self._in_table(start, content, stop))
        ):
            pass
        elif first in "-*+•0123456789" and (
            (item := _ITEM.match(text, content)) is not None and not self._is_turn(content, stop)
        ):
            self._item(start, indented, item[0])
        else:
            self._plain(start, indented, content, stop)
        self._last = (content, stop)
        self._list_lines += 1
        self._blank = False

    def _heading(self, start: int, stop: int, depth: int) -> None:
        self._close_all(start)
        self._add(start, GLUED + 1 if self._after_heading else HEADING[depth])
        self.outline.headings.append(Heading(start, stop, depth))
        self._after_heading, self._seen_text = True, True
        self._plain_lines = 0

    def _underlines(self, start: int, content: int, stop: int) -> bool:
        """A line of = or - under a single line makes a heading of it."""
        if self._blank or self._plain_lines != 1 or self._list or self._chat:
            return False
        found = _UNDERLINE.match(self.text[content : min(stop, content + 200)].rstrip())
        if found is None:
            return False
        at, _ = self._last
        depth = 1 if found[1] else 2
        outline = self.outline
        if outline.at and outline.at[-1] <= at and outline.at[-1] >= at - 3:
            outline.worth[-1] = HEADING[depth]
        outline.headings.append(Heading(at, start, depth))
        self._after_heading, self._seen_text, self._plain_lines = True, True, 0
        return True

    def _rules(self, start: int, content: int, stop: int) -> bool:
        line = self.text[content : min(stop, content + 200)].rstrip()
        if not _RULE.match(line):
            return False
        self._close_all(start)
        self._add(start, PART)
        self._plain_lines, self._after_heading = 0, False
        return True

    def _item(self, start: int, indented: int, bullet: str) -> None:
        self._close_table(start)
        if self._blank and not bullet[0].isdigit():
            self._numbered_heading()
        if self._list is None:
            self._add(start, self._glue(BLOCK if self._blank else ROW))
            self._list = _Block(start, len(self.outline.at))
            self._list_lines = 0
        else:
            self._add(start, max(ITEM - 2 * min(indented, 10), SENTENCE + 1))
        self._seen_text, self._after_heading, self._plain_lines = True, False, 0

    def _plain(self, start: int, indented: int, content: int, stop: int) -> None:
        if self._list is not None and self._blank and not indented:
            self._numbered_heading()
            self._close_list(start)
        self._close_table(start)
        if self._is_turn(content, stop):
            self._close_list(start)
            worth = BLOCK
        elif self._blank:
            worth = self._glue(BLOCK if self._list is None else SENTENCE + 1)
        elif _GOES_ON.match(self.text, content):
            worth = SOFT
        else:
            worth = LINE
        self._add(start, self._glue(worth) if self._after_heading else worth)
        self._after_heading = False
        self._plain_lines += 1

    def _numbered_heading(self) -> None:
        """``3. Budget`` between blank lines is no list of one, but the heading of what follows."""
        if self._list is None or self._list_lines != 1 or self._chat:
            return
        start, stop = self._last
        line = self.text[start : min(stop, start + 2 * TITLE_CHARACTERS_MAX)].rstrip()
        if not line[0].isdigit() or len(line) > TITLE_CHARACTERS_MAX or line.endswith(_NO_TITLE):
            return
        at, outline = self._list.start, self.outline
        if outline.at and outline.at[-1] == at:
            outline.worth[-1] = HEADING[2]
        outline.headings.append(Heading(at, stop, 2))
        self._list, self._after_heading = None, True

    def _is_turn(self, content: int, stop: int) -> bool:
        return self._chat and speaker(self.text[content : min(stop, content + 160)]) is not None

    # ---- blocks ----------------------------------------------------------------------------------

    def _open_fence(self, start: int, indented: int, mark: str) -> None:
        self._close_table(start)
        if self._list is not None and not indented:
            self._close_list(start)
        worth = self._glue(BLOCK if self._blank and self._list is None else ROW)
        self._add(start, worth)
        self._fence = _Block(start, len(self.outline.at), mark)
        self._seen_text, self._after_heading, self._plain_lines = True, False, 0

    def _in_fence(self, start: int, content: int, stop: int) -> None:
        fence = self._fence
        assert fence is not None
        closing = _FENCE.match(self.text, content)
        closes = closing is not None and closing[1].startswith(fence.fence)
        if closing and closes and not self.text[closing.end() : stop].strip():
            self._fence = None
            self._close(fence, stop)
            return
        self._add(start, ITEM if self._blank else LINE)

    def _in_table(self, start: int, content: int, stop: int) -> bool:
        """A row; its rule tells a table, with or without bars at its edges."""
        text = self.text
        if self._table is not None:
            if text.find("|", content, stop) < 0:
                return False
            self._add(start, ROW)
            return True
        line = text[content : min(stop, content + 20_000)]
        if "|" in line and self._plain_lines == 1 and not self._blank and _TABLE_RULE.match(line):
            at = self.outline.at
            before = len(at) - 1 if at and at[-1] <= self._last[0] else len(at)
            self._table = _Block(at[before] if before < len(at) else start, before + 1)
            self._add(start, ROW)
            return True
        return False

    def _close_table(self, at: int) -> None:
        if self._table is not None:
            table, self._table = self._table, None
            self._close(table, at)

    def _close_list(self, at: int) -> None:
        if self._list is not None:
            closed, self._list = self._list, None
            self._close(closed, at)

    def _close_all(self, at: int) -> None:
        if self._fence is not None:
            fence, self._fence = self._fence, None
            self._close(fence, at)
        self._close_table(at)
        self._close_list(at)

    def _close(self, block: _Block, stop: int) -> None:
        """Forget the places in a block that fits."""
        if stop - block.start > self._most:
            return
        outline = self.outline
        del outline.at[block.mark :]
        del outline.worth[block.mark :]
        starts, stops = outline.whole
        while starts and starts[-1] >= block.start:
            starts.pop()
            stops.pop()
        starts.append(block.start)
        stops.append(stop)

    # ---- places ----------------------------------------------------------------------------------

    def _glue(self, worth: int) -> int:
        """What follows a heading, or a line that ends in a colon, stays with it where it can."""
        if self._after_heading:
            return GLUED
        if self._chat:
            return min(worth, ITEM)  # turns are worth more than what they are made of
        start, stop = self._last
        ending = self.text[max(start, stop - 8) : stop].rstrip()
        return LINE if ending.endswith((":", "：")) else worth

    def _add(self, at: int, worth: int) -> None:
        if at:
            self.outline.at.append(at)
            self.outline.worth.append(worth)
