"""``import_file``: any file of conversations or memories into a store, once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from neverforget.runtime.importers.chatgpt import ChatGPTExport
from neverforget.runtime.importers.elements import first_value, read_elements
from neverforget.runtime.importers.loading import Loader, Progress
from neverforget.runtime.importers.locomo import LoCoMo
from neverforget.runtime.importers.mem0 import Mem0Export
from neverforget.runtime.importers.memory_loading import MemoryLoader
from neverforget.runtime.importers.messages import MessageLists, TurnLines
from neverforget.runtime.importers.report import ImportReport
from neverforget.runtime.importers.source_turn import (
    Branch,
    Element,
    Malformed,
    Parsed,
    Place,
    Problem,
    SourceMemory,
    SourceTurn,
)
from neverforget.runtime.importers.sources import Source, open_sources
from neverforget.storage.errors import InvalidArgument, NeverforgetError

if TYPE_CHECKING:
    from neverforget.runtime.store import Store


class Format(Protocol):
    """Reads the values of one kind of file. Pure: values in, turns and problems out."""

    @property
    def name(self) -> str: ...

    def recognises(self, value: object) -> bool:
        """``value`` has the shape of this format: asked of the first value of a file."""
        ...

    def parse(self, value: object, place: Place, stem: str) -> Iterator[Parsed]:
        """The turns of ``value`` in order. Raises Malformed if it has another shape; ``stem`` names
        a session that has no name in the file."""
        ...


def _formats() -> tuple[Format, ...]:
    """In the order in which they are tried; a message with a session of its own is a line of
    turns."""
    return (ChatGPTExport(), LoCoMo(), Mem0Export(), TurnLines(), MessageLists())


FORMATS = tuple(sorted(each.name for each in _formats()))


def import_file(
    store: Store,
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    namespace: str | tuple[str, ...] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Append the conversations in ``path`` to ``store``, and remember the memories, below
    ``namespace``.

    ``format``: "jsonl" (turns and memories, one a line), "openai" (message lists), "chatgpt" (a
    data export, also as the zip that ChatGPT sends), "mem0" (memories), "locomo", or "auto", which
    looks at the first value. Files may be gzipped; "-" is standard input.

    Running it again appends only what is new, also after an interruption and when the file has
    grown. What cannot be read is reported with file and line and the rest goes on; only a file that
    ends inside a value has no rest. A turn that was imported before and has changed in the file is
    reported, never overwritten; a memory that the file knows in a later version is revised, and one
    that was forgotten or erased here is not brought back. A timestamp without a zone is taken as
    UTC; turns without one get the time of the import.

    ``progress(bytes_read, bytes_in_all)`` is called between batches; the second is None where
    nobody knows. When this returns, all of it survives a crash of any process and a power loss;
    before, a crash may take what was appended last, and the same call brings it again.

    Raises NotFound (no such file), InvalidArgument (not a conversation file, unknown format), and
    what ``append_many`` raises when the store fails; then what was appended stays, and the same
    call goes on from there.
    """
    return load(store, path, format=format, namespace=namespace, dry_run=dry_run, progress=progress)


def load(
    store: Store | None,
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    namespace: str | tuple[str, ...] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """``import_file``, which may also rehearse for a store that does not exist yet (``store``
    None)."""
    prefix = (namespace,) if isinstance(namespace, str) else tuple(namespace)
    shown = os.fspath(path)
    loader = Loader(store, shown, prefix, dry_run)
    memories = MemoryLoader(store, shown, prefix, dry_run, loader.problem)
    read, name = 0, format
    with open_sources(path) as (sources, total):
        for source in sources:
            before = read
            reader, elements = detect(source, format)
            name = reader.name if reader is not None else name
            for element in elements:
                if isinstance(element, Problem):
                    loader.problem(element)
                elif reader is not None:
                    read = before + element.offset
                    _take(loader, memories, reader, element, source.stem)
                if progress is not None:
                    progress(read, total)
        try:
            loader.finish()
            memories.finish()  # their relations name turns
        except NeverforgetError as error:
            told = f"{loader.appended:,} turns and {memories.remembered:,} memories are in"
            error.add_note(f"{told}; the same import goes on from there")
            raise
    return memories.counted(loader.report(shown, name, read))


def detect(
    source: Source, format: str = "auto"
) -> tuple[Format | None, Iterable[Element | Problem]]:
    """The format of ``source`` and its values. The format is None where not one value could be
    read."""
    elements = read_elements(source)
    if format != "auto":
        chosen = next((each for each in _formats() if each.name == format), None)
        if chosen is None:
            raise InvalidArgument(f"no format is called {format!r}; there are {', '.join(FORMATS)}")
        return chosen, elements
    seen, value = first_value(elements)
    if not any(isinstance(each, Element) for each in seen):
        if seen:
            raise InvalidArgument(f"nothing can be read there, {seen[0]}; give lines of JSON")
        return None, elements
    found = next((each for each in _formats() if each.recognises(value)), None)
    if found is None:
        raise InvalidArgument(
            f"{source.name} holds no conversations that are known here; name its format, one of "
            + ", ".join(FORMATS)
        )
    return found, chain(seen, elements)


def parse_file(
    path: str | os.PathLike[str], *, format: str = "auto"
) -> Iterator[SourceTurn | SourceMemory | Problem]:
    """What ``import_file`` would append and remember, without any store."""
    with open_sources(path) as (sources, _):
        for source in sources:
            reader, elements = detect(source, format)
            for element in elements:
                if isinstance(element, Problem) or reader is None:
                    if isinstance(element, Problem):
                        yield element
                    continue
                for parsed in _parse(reader, element, source.stem):
                    if isinstance(parsed, Branch):
                        for turn in parsed.turns:
                            turn.session = parsed.session
                            yield turn
                    else:
                        yield parsed


def _take(
    loader: Loader, memories: MemoryLoader, reader: Format, element: Element, stem: str
) -> None:
    for parsed in _parse(reader, element, stem):
        if isinstance(parsed, Problem):
            loader.problem(parsed)
        elif isinstance(parsed, Branch):
            loader.add_branch(parsed)
        elif isinstance(parsed, SourceMemory):
            memories.add(parsed)
        else:
            loader.add(parsed)


def _parse(reader: Format, element: Element, stem: str) -> Iterator[Parsed]:
    try:
        yield from reader.parse(element.value, element.place, stem)
    except Malformed as error:
        yield element.place.problem(str(error))
