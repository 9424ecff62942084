"""A file as the JSON values it consists of, one at a time, each with the line it begins on.

The file may be lines of JSON, one array, or objects one after the other. An array is cut into its
values by a scan of brackets and strings, without decoding it as a whole: memory is bounded by the
largest value, not by the file. What cannot be decoded becomes a ``Problem`` and the next value
follows; where the structure itself breaks (the file ends inside a value) there is no next one, and
the problem says where the last value began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from neverforget.runtime.importers.source_turn import Element, Place, Problem
from neverforget.runtime.importers.sources import Source
from neverforget.storage.errors import InvalidArgument

VALUE_BYTES_MAX = 256 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_SPACE = b" \t\r\n"
_BETWEEN = re.compile(rb'["\[\]{},]')
_NESTED = re.compile(rb'["\[\]{}]')
_INSIDE = re.compile(rb'["\\]')


def read_elements(
    source: Source, *, value_bytes_max: int = VALUE_BYTES_MAX
) -> Iterator[Element | Problem]:
    """The values of ``source``. InvalidArgument when it does not begin like JSON at all."""
    return _Reader(source, value_bytes_max).values()


class _Reader:
    def __init__(self, source: Source, value_bytes_max: int) -> None:
        self._file = source.name
        self._stream = source.stream
        self._named_lines = source.lines
        self._max = value_bytes_max
        self._line = 1  # of the next byte that is looked at
        self._offset = 0

    def values(self) -> Iterator[Element | Problem]:
        first = self._skip_to_first()
        if first == b"":
            return
        if first == b"[" and not self._named_lines:
            self._offset += len(self._stream.read(1))
            yield from self._split(in_array=True)
        elif first == b"{" or self._named_lines:
            line = self._read_line()
            after = self._peek_line()
            if self._named_lines or _decodes(line) or after.startswith(b"{"):
                yield from self._lines(line)
            else:
                yield from self._split(in_array=False, prefix=line)
        else:
            raise InvalidArgument(
                f"{self._file} is not JSON but begins with {first!r}; give lines of JSON"
            )

    # ---- lines -----------------------------------------------------------------------------------

    def _lines(self, line: bytes) -> Iterator[Element | Problem]:
        while line:
            place = Place(self._file, self._line)
            self._offset += len(line)
            whole = line.endswith(b"\n") or len(line) <= self._max
            if not whole:
                self._offset += self._skip_line()
                yield place.problem(f"the line is longer than {self._max:,} bytes")
            elif line.strip(_SPACE):
                yield self._decode(line.rstrip(b"\r\n"), place)
            self._line += 1
            line = self._read_line()

    def _read_line(self) -> bytes:
        return self._stream.readline(self._max + 1)

    def _peek_line(self) -> bytes:
        return self._stream.peek(64).lstrip(_SPACE)

    def _skip_line(self) -> int:
        skipped = 0
        while rest := self._stream.readline(CHUNK_BYTES):
            skipped += len(rest)
            if rest.endswith(b"\n"):
                break
        return skipped

    def _skip_to_first(self) -> bytes:
        """Skip a byte order mark and white space; the first byte after them stays unread."""
        if self._stream.peek(3)[:3] == BYTE_ORDER_MARK:
            self._offset += len(self._stream.read(3))
        while (byte := self._stream.peek(1)[:1]) and byte in _SPACE:
            self._stream.read(1)
            self._offset += 1
            self._line += byte == b"\n"
        return byte

    # ---- values inside an array, or one after the other ------------------------------------------

    def _split(self, *, in_array: bool, prefix: bytes = b"") -> Iterator[Element | Problem]:
        """``buffer`` holds the value that is being read from its first byte on; ``at`` is how far
        it was scanned."""
        buffer = bytearray(prefix)
        at = depth = 0
        in_string = closed = False
        self._offset += len(prefix)
        while True:
            pattern = _INSIDE if in_string else _NESTED if depth else _BETWEEN
            found = None if closed else pattern.search(buffer, at)
            if found is None or (in_string and found[0] == b"\\" and found.end() == len(buffer)):
                at = len(buffer) if found is None else found.start()
                if len(buffer) > self._max:
                    yield self._place(buffer).problem(f"a value is longer than {self._max:,} bytes")
                    return
                chunk = self._stream.read1(CHUNK_BYTES)
                if not chunk:
                    break
                self._offset += len(chunk)
                buffer += chunk
                if closed and buffer.strip(_SPACE):
                    break
                continue
            byte, at = found[0], found.end()
            if in_string:
                at += byte == b"\\"
                in_string = byte != b'"'
                continue
            if byte == b'"':
                in_string = True
                continue
            if byte in b"{[":
                depth += 1
                continue
            separates = depth == 0
            depth -= not separates
            if separates or (depth == 0 and not in_array):
                closed = separates and byte == b"]" and in_array
                yield from self._cut(bytes(buffer[: at - separates]), byte if separates else b"")
                del buffer[:at]
                at = 0
        yield from self._at_end(bytes(buffer), in_array=in_array, closed=closed)

    def _cut(self, value: bytes, separator: bytes) -> Iterator[Element | Problem]:
        place = self._place(value)
        self._line += value.count(b"\n")
        if len(value) > self._max:
            yield place.problem(f"a value is longer than {self._max:,} bytes")
        elif value.strip(_SPACE):
            yield self._decode(value, place)
        elif separator == b"}":
            yield place.problem("a closing brace that nothing opened")

    def _at_end(self, rest: bytes, *, in_array: bool, closed: bool) -> Iterator[Element | Problem]:
        place = self._place(rest)
        cut_off = "the file ends before the closing bracket of its array; was it cut off?"
        if closed and rest.strip(_SPACE):
            yield place.problem("more text after the end of the array")
        elif rest.strip(_SPACE):
            value = self._decode(rest, place) if in_array else None
            if isinstance(value, Element):  # whole, and only what follows is missing
                yield value
                yield place.problem(cut_off)
            else:
                yield place.problem(
                    "the file ends inside the value that begins here; was it cut off?"
                )
        elif in_array and not closed:
            yield place.problem(cut_off)

    def _place(self, value: bytes | bytearray) -> Place:
        """Where the value begins, white space before it left out."""
        lead = len(value) - len(value.lstrip(_SPACE))
        return Place(self._file, self._line + value.count(b"\n", 0, lead))

    def _decode(self, value: bytes, place: Place) -> Element | Problem:
        try:
            return Element(json.loads(value.decode("utf-8")), place, self._offset)
        except UnicodeDecodeError as error:
            return place.problem(f"not UTF-8 at byte {error.start} of the value")
        except json.JSONDecodeError as error:
            lead = value[: len(value) - len(value.lstrip(_SPACE))].count(b"\n")
            line = place.line - lead + error.lineno - 1
            return Place(place.file, line).problem(f"not JSON: {error.msg} (column {error.colno})")
        except (RecursionError, ValueError) as error:
            return place.problem(f"not readable: {error}")


def _decodes(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def first_value(elements: Iterator[Element | Problem]) -> tuple[list[Element | Problem], Any]:
    """Read on to the first value that decodes. Returns what was read, and that value (None: there
    is none)."""
    seen: list[Element | Problem] = []
    for element in elements:
        seen.append(element)
        if isinstance(element, Element):
            return seen, element.value
        if len(seen) >= 1000:
            break
    return seen, None
