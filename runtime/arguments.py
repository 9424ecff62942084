"""Arguments, checked before anything is sent: every mode answers a wrong one the same way."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from neverforget.actors.message_bases import SYNC_REPLICA
from neverforget.actors.messages import SYNC_DISK, SYNC_PROCESS
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.scope import checked_text
from neverforget.runtime.values import Turn
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import SEQ_MAX
from neverforget.storage.type_names import a_type

LIMIT_MAX = 1_000_000
SYNC_CODES = {"disk": SYNC_DISK, "process": SYNC_PROCESS, "replica": SYNC_REPLICA}
_REPR_CHARACTERS_MAX = 60


class Raise(Enum):
    """The default of ``get``: what is not there raises NotFound instead of giving a value."""

    RAISE = "raise"

    def __repr__(self) -> str:
        return "RAISE"


RAISE: Final = Raise.RAISE


def whole(value: Any, what: str, low: int, high: int) -> int:
    """``value`` as an int from ``low`` to ``high``; anything with ``__index__`` but a bool."""
    if type(value) is not int:
        if isinstance(value, bool):
            raise InvalidArgument(f"{what} is {value}; pass a whole number")
        try:
            value = operator.index(value)
        except TypeError:
            raise InvalidArgument(f"{what} is {_shown(value)}; pass a whole number") from None
    if not low <= value <= high:
        raise InvalidArgument(f"{what} is {value:,}; it must be from {low:,} to {high:,}")
    return int(value)


def _shown(value: Any) -> str:
    """What was given in place of a number. A whole turn is no help in a message."""
    if isinstance(value, Turn):
        return f"turn {value.seq} itself, a Turn; pass turn.seq"
    text = repr(value)
    if len(text) > _REPR_CHARACTERS_MAX:
        return a_type(value)
    return text if value is None else f"{text}, {a_type(value)}"


def checked_limit(limit: Any) -> int:
    """How many items are wanted at most: 1 to 1,000,000."""
    return whole(limit, "limit", 1, LIMIT_MAX)


def checked_cursor(after: Any) -> str | None:
    """What a listing goes on from."""
    if after is not None and not isinstance(after, str):
        raise InvalidArgument(f"after is {a_type(after)}; pass a page's .next, or leave it out")
    return after


def checked_seq(seq: Any, what: str = "seq", low: int = 0) -> int:
    """The number of a turn."""
    return whole(seq, what, low, SEQ_MAX)


def sync_code(sync: SyncLevel | None, default: SyncLevel) -> int:
    """The wire's word for a sync level. None: the handle's own."""
    try:
        return SYNC_CODES[default if sync is None else sync]
    except (KeyError, TypeError):
        raise InvalidArgument(f'sync is {sync!r}; pass "disk", "process" or "replica"') from None


def runs_of(seqs: Any) -> list[tuple[int, int]]:
    """``seqs`` (a number, or an iterable of numbers) as ascending (first, last) runs without
    overlap.
    """
    if isinstance(seqs, range) and seqs.step == 1 and len(seqs):
        return [(checked_seq(seqs[0]), checked_seq(seqs[-1]))]
    if isinstance(seqs, Iterable) and not isinstance(seqs, (str, bytes)):
        wanted = sorted({checked_seq(seq) for seq in seqs})
    else:
        wanted = [checked_seq(seqs, "seqs")]
    runs: list[tuple[int, int]] = []
    for seq in wanted:
        if runs and seq == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    return runs


def checked_roles(roles: Any) -> list[str] | None:
    """Which roles to show; a bare string is one role. None: all."""
    if roles is None:
        return None
    if isinstance(roles, str):
        roles = (roles,)
    if not isinstance(roles, Iterable):
        raise InvalidArgument(f"roles is {roles!r}; pass one role or several, as text")
    found = [checked_text(role, "a role") for role in roles]
    if not found:
        raise InvalidArgument("roles is empty; leave it out to see all roles")
    return found
