"""Is what one turn says what another says? Pure.

Judged by structure, as JSON and Python's ``==`` see it, since clients in other languages write the
same value in other bytes: the order of a map's keys does not matter, and a whole number equals the
float of the same value. A boolean is no number, text is not bytes, and nan is the same as nan: what
was stored and read back must be the same as itself.
"""

from __future__ import annotations

from typing import Any


def same_content(one: Any, other: Any) -> bool:
    """Without recursion: content nests deeper than some callers' stacks have room for."""
    pending = [(one, other)]
    while pending:
        ours, theirs = pending.pop()
        if isinstance(ours, dict):
            if not isinstance(theirs, dict) or ours.keys() != theirs.keys():
                return False
            pending.extend((value, theirs[key]) for key, value in ours.items())
        elif isinstance(ours, list):
            if not isinstance(theirs, list) or len(ours) != len(theirs):
                return False
            pending.extend(zip(ours, theirs))
        elif not _same_scalar(ours, theirs):
            return False
    return True


def _same_scalar(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if one != one:
        return bool(other != other)
    return bool(one == other)
