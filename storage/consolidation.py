"""Which extractor consolidated which turns of a session; the newest mark counts.

Almost always one extractor did all of it: then its name is all that is kept beside the marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from neverforget.storage.runs import Runs
from neverforget.storage.session_index import SessionExtra


def consolidate(extra: SessionExtra, first: int, last: int, extractor: str) -> None:
    """Turns first..last were consolidated by ``extractor``, whoever did so before."""
    held, extractor = extra.extractors, intern(extractor)
    if held is None or held == extractor:
        extra.extractors = extractor
    else:
        by = {held: Runs(extra.marks)} if isinstance(held, str) else held
        by.setdefault(extractor, Runs())
        for name, runs in by.items():
            if name != extractor:
                runs.remove(first, last)
        by[extractor].add(first, last)
        by = {name: runs for name, runs in by.items() if runs}
        extra.extractors = extractor if len(by) == 1 else by
    extra.own("marks").add(first, last)


def consolidated_by_others(
    extra: SessionExtra | None, extractor: str | None
) -> Iterator[tuple[int, int]]:
    """Runs of turns that another extractor than this one has consolidated."""
    if extra is None or extra.extractors is None:
        return
    if isinstance(extra.extractors, str):
        if extra.extractors != extractor:
            yield from extra.marks
        return
    for name, runs in extra.extractors.items():
        if name != extractor:
            yield from runs
