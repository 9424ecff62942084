"""Which turns a tail shows, so that no result is parted from its call. Pure; owner and client use
it.

A result belongs to the turn with its call id, else to the nearest call before it. A tail that was
closed by its limit or budget leaves out every result whose call lies before it (``parted``): a
language model refuses such a result. What is left out is therefore the least that keeps pairs
together; all other turns stay. Only where nothing would be left is the call brought in, above the
limit (``newest_group``): a session that has turns has a tail.

Results whose call was left out by the caller's own role filter, or that have no call at all, stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from neverforget.storage.format import RESULT_ROLES, BodyField, RecordFlag, RoleCode
from neverforget.storage.record import Header

_RESULT_ROLES = frozenset(int(role) for role in RESULT_ROLES)
_CALL_ID, _CONTENT = int(BodyField.CALL_ID), int(BodyField.CONTENT)


class Link(NamedTuple):
    """What pairing needs to know of one turn. ``makes``: ids of its calls, empty when it holds
    calls without ids, None when it is no call. ``answers``: a result's call id.
    """

    is_result: bool
    makes: frozenset[str] | None
    answers: str | None


class Sight(Enum):
    """Why a turn is shown or not."""

    SHOWN = "shown"
    HIDDEN = "hidden"
    OTHER_ROLE = "other role"  # not among the roles that were asked for


NO_LINK = Link(False, None, None)


def is_paired(role: int, flags: int) -> bool:
    """Does a turn with this role byte and these flags hold a call or a result?"""
    return role in _RESULT_ROLES or bool(flags & RecordFlag.CALLS)


def link(header: Header, body: Mapping[int, Any] | None) -> Link:
    """The link of one turn. ``body`` may be None (erased, unreadable): then its ids are unknown."""
    if header.role in _RESULT_ROLES:
        answers = body.get(_CALL_ID) if body else None
        return Link(True, None, answers)
    if not header.flags & RecordFlag.CALLS:
        return NO_LINK
    if not body:
        return Link(False, frozenset(), None)
    ids = {body[_CALL_ID]} if body.get(_CALL_ID) is not None else set()
    if header.role != RoleCode.TOOL_CALL:
        ids |= _ids_in(body.get(_CONTENT))
    return Link(False, frozenset(ids), None)


def _ids_in(content: Any) -> set[str]:
    """Ids of the calls in an assistant turn's ``tool_calls``."""
    calls = content.get("tool_calls") if isinstance(content, dict) else None
    if not isinstance(calls, list):
        return set()
    found = (call.get("id") for call in calls if isinstance(call, dict))
    return {call_id for call_id in found if isinstance(call_id, str)}


def parted(links: Iterable[Link], *, calls_before: bool) -> list[int]:
    """Indexes of the results to leave out of a window, given its turns oldest first.

    ``calls_before``: may there be calls before the window? Then a result that no call in the window
    surely made counts as parted.
    """
    left_out: list[int] = []
    made: set[str] = set()
    nearest: frozenset[str] | None = None
    for index, (is_result, makes, answers) in enumerate(links):
        if makes is not None:
            made |= makes
            nearest = makes
        elif is_result and calls_before:
            if answers is None:
                belongs = nearest is not None
            else:
                # A nearest call with ids of its own is another call's; one without may be this.
                belongs = answers in made or (nearest is not None and not nearest)
            if not belongs:
                left_out.append(index)
    return left_out


def newest_group(
    links: Sequence[Link], sights: Sequence[Sight], *, whole: bool
) -> list[int] | None:
    """Indexes of the newest turn that may be shown and of all that belongs with it, from its call
    on, given the session's newest turns. None: what decides lies before them. ``whole``: nothing
    lies before them, or it is not to be looked at.
    """
    owners = _owners(links, whole)
    for index in range(len(links) - 1, -1, -1):
        if sights[index] is not Sight.SHOWN:
            continue
        start = index
        if links[index].is_result:
            owner = owners.get(index, _FURTHER_BACK)
            if owner == _FURTHER_BACK:
                return None
            if owner is not None and sights[owner] is Sight.HIDDEN:
                continue  # nobody may see its call: it is no turn to show by itself
            if owner is not None and sights[owner] is Sight.SHOWN:
                start = owner
        return _from(start, links, sights, owners)
    return [] if whole else None


_FURTHER_BACK = -1


def _owners(links: Sequence[Link], whole: bool) -> dict[int, int | None]:
    """Each result's call, None where it has none; without the results whose call may lie before
    ``links``.
    """
    owners: dict[int, int | None] = {}
    made: dict[str, int] = {}
    nearest: int | None = None
    for index, (is_result, makes, answers) in enumerate(links):
        if makes is not None:
            made.update(dict.fromkeys(makes, index))
            nearest = index
        elif is_result:
            owner = None if answers is None else made.get(answers)
            if owner is not None:
                owners[index] = owner
            elif whole or (nearest is not None and (answers is None or not links[nearest].makes)):
                owners[index] = nearest
    return owners


def _from(
    start: int, links: Sequence[Link], sights: Sequence[Sight], owners: Mapping[int, int | None]
) -> list[int]:
    """What may be shown of ``links[start:]`` without parting a result from its call."""
    kept: list[int] = []
    for index in range(start, len(links)):
        if sights[index] is not Sight.SHOWN:
            continue
        free = index == start or not links[index].is_result
        if free or _stays(owners.get(index, _FURTHER_BACK), start, sights):
            kept.append(index)
    return kept


def _stays(owner: int | None, start: int, sights: Sequence[Sight]) -> bool:
    """A result with this call may be shown among the turns from ``start`` on."""
    if owner is None:
        return True
    if owner == _FURTHER_BACK:
        return False
    if sights[owner] is Sight.SHOWN:
        return owner >= start
    return sights[owner] is Sight.OTHER_ROLE
