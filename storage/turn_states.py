"""What is known of a turn besides its record, in a word."""

from __future__ import annotations

from typing import Any

from neverforget.storage.format import ROLE_NAMES, BodyField, RoleCode
from neverforget.storage.record import Header
from neverforget.storage.results import TurnFlag, TurnState

_HIDDEN, _ERASED, _UNREADABLE = (
    int(TurnFlag.HIDDEN),
    int(TurnFlag.ERASED),
    int(TurnFlag.UNREADABLE),
)


def flags_by_seq(runs: list[tuple[int, int, int]]) -> dict[int, int]:
    """A window's flag runs, turn by turn; turns without flags are left out."""
    found: dict[int, int] = {}
    for first, last, flags in runs:
        for seq in range(first, last + 1):
            found[seq] = found.get(seq, 0) | flags
    return found


def state_of(flags: int) -> TurnState:
    """The one word for a turn's flags: what is lost says more than what is hidden."""
    if flags & _ERASED:
        return "erased"
    if flags & _UNREADABLE:
        return "unreadable"
    return "hidden" if flags & _HIDDEN else "ok"


def lost_state(header: Header, state: TurnState) -> TurnState:
    """Of a turn whose body is not there, or is none."""
    if state in ("ok", "hidden"):
        return "erased" if header.body_length == 0 else "unreadable"
    return state


def role_of(header: Header, body: dict[int, Any]) -> str:
    """The role as its writer said it; "" where that is lost."""
    role = ROLE_NAMES.get(header.role)
    if role is None:
        role = body.get(int(BodyField.ROLE), "") if header.role == RoleCode.OTHER else ""
    return role
