"""Which turns of a session are consolidated, and by which extractor; the newest mark counts.

Almost always one extractor has done all from the first own turn on: then a number and a name in the
session are all that is kept (``done``, ``done_by``), and runs only where it is otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from neverforget.storage.runs import NO_RUNS, Runs
from neverforget.storage.session_index import Session


def consolidate(session: Session, first: int, last: int, extractor: str) -> None:
    """Turns first..last were consolidated by ``extractor``, whoever did so before."""
    if last < session.base:
        return  # no program of ours has written that
    extractor = intern(extractor)
    if session.extra is None or session.extra.extractors is None:
        known = session.done_by
        done = session.done if known is not None else session.base
        if (first <= done and known in (None, extractor)) or (
            first <= session.base and last >= done
        ):
            session.done, session.done_by = max(done, last + 1), extractor
            return
    _as_runs(session, first, last, extractor)


def _as_runs(session: Session, first: int, last: int, extractor: str) -> None:
    extra = session.more()
    if session.done_by is not None:
        extra.own("marks").add(session.base, session.done - 1)
        extra.extractors = session.done_by
        session.done, session.done_by = 0, None
    held = extra.extractors
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
    marks = extra.own("marks")
    marks.add(first, last)
    if isinstance(extra.extractors, str) and marks.firsts == [session.base]:
        session.done, session.done_by = marks.lasts[0] + 1, extra.extractors
        extra.marks, extra.extractors = NO_RUNS, None


def consolidated_by_others(session: Session, extractor: str | None) -> Iterator[tuple[int, int]]:
    """Runs of turns that another extractor than this one has consolidated."""
    held = session.done_by if session.extra is None else session.extra.extractors or session.done_by
    if isinstance(held, dict):
        for name, runs in held.items():
            if name != extractor:
                yield from runs
    elif held is not None and held != extractor:
        yield from session.marks


def is_done_by(session: Session, extractor: str, first: int, last: int) -> bool:
    """Whether this extractor has consolidated any of these turns."""
    held = session.done_by if session.extra is None else session.extra.extractors or session.done_by
    if isinstance(held, dict):
        runs = held.get(extractor, NO_RUNS)
    else:
        runs = session.marks if held == extractor else NO_RUNS
    return next(runs.within(first, last + 1), None) is not None
