"""The turns of a session as a reflector reads them, and the windows that it makes of them. Pure.

What is hidden, erased or unreadable is in no window. What came from recall is in it, marked: a turn
whose metadata says ``recalled``, and of any other the lines from RECALLED_BEGIN to RECALLED_END,
which are cut out of its text. Learning from it again would make an echo into a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from neverforget.actors.extractor_contract import Known, Window, WindowTurn
from neverforget.actors.turn_text import text_of
from neverforget.storage.format import BodyField
from neverforget.storage.record import Header, decode_records
from neverforget.storage.results import TurnFlag, TurnState
from neverforget.storage.results import Window as Records
from neverforget.storage.turn_states import flags_by_seq, lost_state, role_of, state_of

RECALLED_BEGIN: Final = "<recalled-memories>"
RECALLED_END: Final = "</recalled-memories>"
RECALLED: Final = "recalled"  # in a turn's metadata
_ASSISTANTS: Final = frozenset({"assistant", "tool_call", "thought"})
_CONTENT, _NAME, _AGENT = BodyField.CONTENT, BodyField.NAME, BodyField.AGENT
# To the end of the text where nobody has closed it.
_RECALLED = re.compile(
    rf"^[ \t]*{RECALLED_BEGIN}[ \t]*$.*?(?:^[ \t]*{RECALLED_END}[ \t]*$\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)


class ReadTurn(NamedTuple):
    """``turn``: None where it is in no window. ``consolidated``: facts were made of it before."""

    seq: int
    tokens: int
    state: TurnState
    consolidated: bool
    agent: str | None
    turn: WindowTurn | None


class Part(NamedTuple):
    """Some turns of a session, by seq. ``session_id``: another one where the name was erased and
    used again, 0 where there is none.
    """

    turns: list[ReadTurn]
    session_id: int

    def lost(self) -> set[int]:
        """The seqs of what is in no window."""
        return {each.seq for each in self.turns if each.state != "ok"}

    def is_as(self, other: Part) -> bool:
        """Whether the other one, read at another time, has the same turns to show."""
        return self.session_id == other.session_id and self.lost() == other.lost()


def read_turns(records: Records) -> list[ReadTurn]:
    flagged = flags_by_seq(records.flags)
    return [
        _read_turn(header, body, flagged.get(header.sequence_id, 0), records.consolidated_through)
        for header, body in decode_records(records.records)
    ]


def last_of(turns: Iterable[ReadTurn], first: int, turns_max: int, tokens_max: int) -> int:
    """Where a window that begins at ``first`` ends: before it has more turns or tokens, but never
    empty.
    """
    last, tokens = first, 0
    for each in turns:
        if each.seq < first:
            continue
        tokens += each.tokens
        if each.seq > first and (each.seq - first >= turns_max or tokens > tokens_max):
            break
        last = each.seq
    return last


def window_of(
    namespace: tuple[str, ...],
    session: str,
    turns: Sequence[ReadTurn],
    first: int,
    last: int,
    known: Sequence[Known] = (),
) -> Window:
    """``first``..``last`` are fresh, what stands before them is for context."""
    shown = (
        msgspec.structs.replace(each.turn, fresh=each.seq >= first)
        for each in turns
        if each.turn is not None and each.seq <= last
    )
    return Window(namespace, session, tuple(shown), tuple(known))


def without_recalled(text: str) -> str:
    """``text`` without what a context of recalled memories put into it."""
    return _RECALLED.sub("", text) if RECALLED_BEGIN in text else text


def _read_turn(header: Header, body: dict[int, Any] | None, flags: int, through: int) -> ReadTurn:
    state = state_of(flags)
    if body is None:
        body, state = {}, lost_state(header, state)
    seq = header.sequence_id
    agent = body.get(_AGENT)
    turn = None if state != "ok" else _shown(header, body)
    consolidated = seq < through or bool(flags & TurnFlag.CONSOLIDATED)
    return ReadTurn(seq, header.token_count, state, consolidated, agent, turn)


def _shown(header: Header, body: dict[int, Any]) -> WindowTurn:
    role = role_of(header, body)
    said = text_of(body.get(_CONTENT))
    text = without_recalled(said)
    metadata = body.get(BodyField.METADATA)
    tagged = isinstance(metadata, dict) and metadata.get(RECALLED) is True
    return WindowTurn(
        header.sequence_id,
        role,
        body.get(_NAME) or (body.get(_AGENT) if role in _ASSISTANTS else None),
        said if tagged else text,
        header.timestamp,
        recalled=tagged or (text is not said and not text.strip()),
    )
