"""What commands print: turns that a person can read, and JSON that a program can.

Conversations come from anywhere, so text is made harmless before it reaches a terminal: control
characters, which could move its cursor or retitle its window, and marks that reverse the direction
of text are shown as escapes.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from neverforget.runtime.turn_text import RESULTS, as_json, call_text, spoken

if TYPE_CHECKING:
    from neverforget.runtime.values import Turn

CONTENT_CHARACTERS_MAX = 4_000
ARGUMENT_CHARACTERS_MAX = 600
INDENT = 7
SPEAKER_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green")
ROLE_COLOURS = {"system": "bright_black", "thought": "bright_black"}

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` with every character that a terminal would act upon shown as an escape."""
    return _UNPRINTABLE.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class ReaderGone(Exception):
    """Whoever read what we print has seen enough (`| head`). No OSError: click has an exit code of
    its own for a broken pipe."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise ReaderGone


def console() -> Console:
    """Standard output. Not a terminal: no colour, and lines as long as they are."""
    return _Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def errors() -> Console:
    return _Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any, out: TextIO | None = None) -> None:
    """One document on one line; lone surrogates as escapes, so that any reader takes it."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    (out or sys.stdout).write(text + "\n")


def write_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def local(at: datetime | None, *, seconds: bool = False) -> str:
    """UTC, to the minute: 2026-03-02 08:04."""
    if at is None:
        return "-"
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def size(count: float) -> str:
    if count < 1024:
        return f"{count:,.0f} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:,.1f} {unit}"
    return f"{count / 1024:,.1f} GiB"


def place(namespace: tuple[str, ...], session: str = "") -> str:
    """A session with its namespace, as a person reads it."""
    return printable(" / ".join((*namespace, session) if session else namespace))


def turn_view(turn: Turn, *, full: bool = False, wrap: bool = True) -> RenderableType:
    """One turn: a line that says who and when, then what was said. ``wrap`` at the terminal's
    width; where there is none, lines stay as long as they are."""
    speaker = turn.name or turn.agent or turn.role
    head = Text()
    head.append(f"{turn.seq:>5}  ", "bright_black")
    head.append(printable(speaker), f"bold {_colour(speaker, turn.role)}")
    if turn.role not in ("user", "assistant") and speaker != turn.role:
        head.append(f" {printable(turn.role)}", "bright_black")
    head.append(f"  {local(turn.timestamp)}", "bright_black")
    if turn.state != "ok":
        head.append(f"  {turn.state}", "red" if turn.state == "unreadable" else "yellow")
    if turn.state in ("erased", "unreadable"):
        return head
    content = content_view(turn.role, turn.content, full=full)
    if wrap:
        return Group(head, Padding(content, (0, 0, 0, INDENT), expand=False))
    indented = [Text(" " * INDENT) + line for line in content.split("\n", allow_blank=True)]
    return Text("\n").join([head, *indented])


def _colour(speaker: str, role: str) -> str:
    if role in ROLE_COLOURS:
        return ROLE_COLOURS[role]
    return SPEAKER_COLOURS[zlib.crc32(speaker.encode("utf-8", "replace")) % len(SPEAKER_COLOURS)]


def content_view(role: str, content: Any, *, full: bool = False) -> Text:
    limit = None if full else CONTENT_CHARACTERS_MAX
    if isinstance(content, str):
        style = "italic bright_black" if role == "thought" else ""
        return Text(_cut(printable(content), limit), style)
    if isinstance(content, bytes):
        return Text(
            f"{len(content):,} bytes: {content[:24].hex(' ')}{' …' if len(content) > 24 else ''}"
        )
    call = call_text(content) if role == "tool_call" else None
    if call is not None:
        return Text("→ " + _cut(printable(call), limit))
    text = spoken(content)
    if text is not None:
        return Text(_cut(printable(text), limit))
    arrow = "← " if role in RESULTS else ""
    limit = None if full else ARGUMENT_CHARACTERS_MAX
    return Text(arrow + _cut(printable(as_json(content)), limit))


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters, --full shows them)"


def pairs(title: str, rows: Mapping[str, Any]) -> Table:
    """A table of two columns without lines: names and values."""
    table = Table(
        title=title or None, title_justify="left", show_header=False, box=None, pad_edge=False
    )
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, printable(str(value)))
    return table


def columns(*headings: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table with plain headings; those in ``right`` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


@contextmanager
def progress_bar(what: str, *, in_bytes: bool, quiet: bool) -> Iterator[Any]:
    """Gives ``update(done, total)``, which draws a bar on standard error where that is a
    terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    shape = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        count,
        TimeElapsedColumn(),
    )
    with Progress(*shape, console=errors(), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield update


PROBLEMS_SHOWN = 20


def print_problems(problems: Sequence[object], count: int) -> None:
    """The first of ``count`` problems of a file; ``problems``: those that a report keeps."""
    out = errors()
    for problem in problems[:PROBLEMS_SHOWN]:
        out.print(str(problem), markup=False, style="yellow")
    if count > PROBLEMS_SHOWN:
        left = count - PROBLEMS_SHOWN
        out.print(f"… and {left:,} more; --json lists the first 1,000", markup=False)
