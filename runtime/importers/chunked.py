"""Memories of a system that put a summary in the place of a long memory, and its text into chunks.

A *container* is a record whose text replaced the original; its *chunks* name it. What is read of a
record, at its top level or in its ``metadata``:

* its id: ``id``; its text: ``text``, ``content`` or ``memory``;
* of a chunk: whose it is: ``parent_id``, ``container_id`` or ``original_id``; which one it is, from
  0 or 1: ``chunk_index``, ``index`` or ``sequence``; what it covers: ``start`` and ``end``
  (``start_offset``, ``end_offset``), in characters or in bytes of UTF-8;
* of a container: its chunks, as ids or as whole records: ``chunks``, ``chunk_ids`` or ``children``,
  or how many there are: ``chunk_count`` or ``total_chunks``; how long the original was:
  ``original_length``; its SHA-256 as hexadecimal text: ``original_sha256`` or ``content_hash``.

An original is restored only where it is certain: every chunk is there, they cover the text without
a gap and agree where they overlap, and length and digest are what the container says. Without spans
something must prove how the chunks join: the digest, or the length. Everything else stays as it is.
What is of another type than that, as an index that is text, makes nothing certain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from neverforget.runtime.importers.source_turn import Malformed

PARENT = ("parent_id", "container_id", "original_id")
NUMBER = ("chunk_index", "index", "sequence")
START, STOP = ("start", "start_offset"), ("end", "stop", "end_offset")
CHILDREN = ("chunks", "chunk_ids", "children")
COUNT = ("chunk_count", "total_chunks")
LENGTH, DIGEST = ("original_length",), ("original_sha256", "content_hash")
TEXT = ("text", "content", "memory")

OVERLAP_MAX: Final = 2_000
_JOINTS = ("", "\n", "\n\n", " ")
_KINDS: Final = (
    *((names, int) for names in (NUMBER, START, STOP, COUNT, LENGTH)),
    (CHILDREN, list),
    (DIGEST, str),
)
_TYPES: Final = {int: "a whole number", str: "text", list: "a list"}


@dataclass(slots=True)
class Record:
    """One of a file. ``fields``: all that it says; ``children``: ids that it lists."""

    id: str
    text: str
    line: int
    fields: Mapping[str, Any]
    parent: str | None = None
    number: int | None = None
    span: tuple[int, int] | None = None
    children: list[str] = field(default_factory=list)
    count: int | None = None
    length: int | None = None
    digest: str | None = None
    wrong: str | None = None  # a field of a wrong type

    @property
    def says_it_was_replaced(self) -> bool:
        """Also without any chunk: it says how many there were, or that it was longer."""
        if self.parent is not None:
            return False  # chunks say how many they are
        if self.count or any(_is_wrong(self.fields, n, int) for n in (COUNT, LENGTH)):
            return True
        return self.length is not None and self.length not in _lengths(self.text)


class NotRestorable(Exception):
    """The text of the original is not certain; the message says why."""


def records_of(value: Any, line: int) -> Iterator[Record]:
    """The record that ``value`` is, and the whole records among its children. Malformed."""
    if not isinstance(value, dict):
        raise Malformed(f"a memory must be an object, not {type(value).__name__}")
    name, text = _id(value), said_in(value, TEXT)
    if not isinstance(text, str):
        raise Malformed(f"memory {name} has no text")
    start, stop = _first(value, START, int), _first(value, STOP, int)
    made = Record(
        name,
        text,
        line,
        value,
        parent=_named(value, PARENT),
        number=_first(value, NUMBER, int),
        span=None if start is None or stop is None else (start, stop),
        count=_first(value, COUNT, int),
        length=_first(value, LENGTH, int),
        digest=_first(value, DIGEST, str),
        wrong=next(
            (said for names, kind in _KINDS if (said := _is_wrong(value, names, kind))), None
        ),
    )
    yield made
    for at, child in enumerate(_first(value, CHILDREN, list) or ()):
        if isinstance(child, dict):
            inside = list(records_of({"id": f"{name}/{at}", **child}, line))
            inside[0].parent = inside[0].parent or name
            made.children.append(inside[0].id)
            yield from inside
        else:
            made.children.append(_name(child))


def restored(container: Record, chunks: list[Record]) -> str:
    """The original's text. ``chunks``: those that name it. Raises NotRestorable."""
    for record in (container, *chunks):
        if record.wrong is not None:
            said = record.wrong if record is container else f"its chunk {record.id}: {record.wrong}"
            raise NotRestorable(said)
    chunks = _in_order(container, chunks)
    if all(chunk.span is not None for chunk in chunks):
        texts = [_covered(chunks)]
        _check_end(container, chunks)
    else:
        if container.length is None and container.digest is None:
            raise NotRestorable("neither spans, nor a length, nor a digest prove how they join")
        texts = _joined(chunks)
    proven = list(dict.fromkeys(text for text in texts if _is_proven(container, text)))
    if not proven:
        raise NotRestorable("the chunks joined have another length or digest than the original")
    if len(proven) > 1:
        raise NotRestorable("the chunks join in more than one way to this length")
    return proven[0]


def _in_order(container: Record, chunks: list[Record]) -> list[Record]:
    found = {chunk.id: chunk for chunk in chunks}
    missing = [name for name in container.children if name not in found]
    if missing:
        raise NotRestorable(f"{len(missing):,} of its chunks are missing, as {missing[0]}")
    if container.count is not None and container.count != len(found):
        raise NotRestorable(f"it had {container.count:,} chunks, {len(found):,} are here")
    if not found:
        raise NotRestorable("none of its chunks are here")
    if all(chunk.span is not None for chunk in chunks):
        return sorted(chunks, key=lambda chunk: chunk.span or (0, 0))
    numbers = sorted(chunk.number for chunk in chunks if chunk.number is not None)
    if len(numbers) == len(chunks):
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] not in (
            0,
            1,
        ):
            raise NotRestorable("the numbers of its chunks have a gap, or some are there twice")
        return sorted(chunks, key=lambda chunk: chunk.number or 0)
    if len(container.children) == len(chunks):
        return [found[name] for name in container.children]
    raise NotRestorable("nothing says in which order its chunks stand")


def _covered(chunks: list[Record]) -> str:
    """What chunks with spans cover, from 0 without a gap."""
    sizes = {(chunk.span[1] - chunk.span[0] == len(chunk.text)) for chunk in chunks if chunk.span}
    if sizes == {True}:
        text = ""
        for chunk in chunks:
            text = _laid_on(text, chunk.text, chunk)
        return text
    covered = b""
    for chunk in chunks:
        covered = _laid_on(covered, chunk.text.encode("utf-8", "surrogatepass"), chunk)
    try:
        return covered.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise NotRestorable("the spans of its chunks cut characters") from None


def _laid_on(text: Any, part: Any, chunk: Record) -> Any:
    assert chunk.span is not None
    start, stop = chunk.span
    if stop - start != len(part):
        raise NotRestorable(f"chunk {chunk.id} is not as long as its span says")
    if start > len(text):
        raise NotRestorable(f"a gap before chunk {chunk.id}, from {len(text):,} to {start:,}")
    common = min(len(text), stop) - start
    if text[start : start + common] != part[:common]:
        raise NotRestorable(f"chunk {chunk.id} says something else where it overlaps another")
    return text + part[common:]


def _check_end(container: Record, chunks: list[Record]) -> None:
    told = (container.length, container.digest, container.count)
    if all(each is None for each in told) and len(container.children) != len(chunks):
        raise NotRestorable("nothing says that the last chunk here is the last one")


def _joined(chunks: list[Record]) -> list[str]:
    """The texts that chunks without spans may stand for."""
    texts = [chunk.text for chunk in chunks]
    candidates = [joint.join(texts) for joint in _JOINTS]
    overlapped = texts[0]
    for text in texts[1:]:
        most = min(len(overlapped), len(text), OVERLAP_MAX)
        common = next((n for n in range(most, 0, -1) if overlapped.endswith(text[:n])), 0)
        overlapped += text[common:]
    return [*candidates, overlapped]


def _is_proven(container: Record, text: str) -> bool:
    if container.length is not None and container.length not in _lengths(text):
        return False
    if container.digest is None:
        return True
    said = container.digest.lower().removeprefix("sha256:")
    return said == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lengths(text: str) -> tuple[int, int]:
    """In characters, and in bytes of UTF-8."""
    return len(text), len(text.encode("utf-8", "surrogatepass"))


# ---- reading a record ----------------------------------------------------------------------------


def said_in(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of ``names`` that ``value``, or its metadata, has."""
    metadata = value.get("metadata")
    for place in (value, metadata if isinstance(metadata, dict) else {}):
        for name in names:
            if place.get(name) is not None:
                return place[name]
    return None


def _first(value: Mapping[str, Any], names: tuple[str, ...], kind: type[Any]) -> Any:
    """None as well where it is of another type: see ``wrong``."""
    found = _whole(said_in(value, names))
    return None if _is_wrong(value, names, kind) else found


def _is_wrong(value: Mapping[str, Any], names: tuple[str, ...], kind: type[Any]) -> str:
    """What is wrong with the type of what it says; "": nothing."""
    found = _whole(said_in(value, names))
    if found is None or (isinstance(found, kind) and not isinstance(found, bool)):
        return ""
    return f"{names[0]} must be {_TYPES[kind]}, not {type(found).__name__}"


def _whole(found: Any) -> Any:
    """Some write whole numbers as 1.0."""
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _name(found: Any) -> str:
    return str(_whole(found))


def _named(value: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = said_in(value, names)
    return None if found is None else _name(found)


def _id(value: Mapping[str, Any]) -> str:
    name = _whole(value.get("id"))
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise Malformed("it has no id")
    return str(name)
