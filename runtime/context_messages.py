"""A context as the messages of a chat API, in the form that OpenAI gave them. Pure.

Such an API takes a call only if its result follows at once, and a result only behind its call. So
the results of a call stand right behind it, calls made at once are one message, and a call or
result whose other half is not there is told in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from neverforget.actors.tokenizers import Count
from neverforget.runtime.context_calls import (
    NAME_CHARACTERS_MAX,
    Place,
    ToolCall,
    answers_of,
    calls_of,
)
from neverforget.runtime.context_text import recalled_text
from neverforget.runtime.turn_text import (
    ASSISTANT,
    CALL,
    RESULTS,
    THOUGHT,
    as_json,
    carried,
    said_by,
    spoken,
    text_of,
)
from neverforget.runtime.values import Turn
from neverforget.runtime.working_values import Context

Message = dict[str, Any]
ROLES = frozenset({"user", ASSISTANT, "system", "developer"})
_NO_NAME = re.compile(r"[\s<|\\/>]+")


def messages_of(context: Context) -> list[Message]:
    recalled = carried(recalled_text([item.text for item in context.items], context.summary))
    first = [{"role": "system", "content": recalled}] if recalled else []
    return first + turn_messages(context.turns)


def turn_messages(turns: Sequence[Turn]) -> list[Message]:
    """The turns, oldest first, as messages."""
    speakers = {turn.agent for turn in turns if turn.role == ASSISTANT}
    calls = [calls_of(turn, index) for index, turn in enumerate(turns)]
    answers = answers_of(turns, calls)
    told: set[int] = set()
    found: list[Message] = []
    index = 0
    while index < len(turns):
        stop = index + 1
        if calls[index]:
            while turns[index].role == CALL and stop < len(turns) and turns[stop].role == CALL:
                stop += 1
            found += _exchange(turns, calls, (index, stop), answers, len(speakers) > 1)
            told |= {answers[call.place] for n in range(index, stop) for call in calls[n]
                     if call.place in answers}  # fmt: skip
        elif index not in told:
            found.append(_plain(turns[index], len(speakers) > 1))
        index = stop
    return [_carried(message) for message in found]


def _carried(value: Any) -> Any:
    """What JSON can carry of it."""
    if isinstance(value, dict):
        return {name: _carried(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_carried(each) for each in value]
    return carried(value)


def message_tokens(message: Message, count: Count) -> int:
    """What a message takes, by the store's tokenizer, with three for what stands around it."""
    tokens = 3 + count(message["content"])
    for field in ("name", "tool_call_id"):
        tokens += count(message.get(field, ""))
    if "tool_calls" in message:
        tokens += count(as_json(message["tool_calls"]))
    return tokens


# ---- calls and results ---------------------------------------------------------------------------


def _exchange(
    turns: Sequence[Turn],
    calls: Sequence[list[ToolCall]],
    span: tuple[int, int],
    answers: Mapping[Place, int],
    named: bool,
) -> list[Message]:
    """The calls of the turns in ``span``, made at once, and their results."""
    made = [call for index in range(*span) for call in calls[index]]
    answered = [call for call in made if call.place in answers]
    first = turns[span[0]]
    lines = [_beside_calls(first)]
    lines += [f"→ {call.name}({call.arguments})" for call in made if call not in answered]
    message = _message(ASSISTANT, "\n".join(line for line in lines if line), _name(first, named))
    if answered:
        message["tool_calls"] = [call.message() for call in answered]
    found = [message]
    for call in answered:
        content = text_of(turns[answers[call.place]].content)
        found.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return found


# ---- all other turns -----------------------------------------------------------------------------


def _plain(turn: Turn, named: bool) -> Message:
    if turn.role in RESULTS:
        return _message("user", said_by(turn), _cleaned(turn.name))
    if turn.role == THOUGHT:
        return _message(ASSISTANT, f"(thinking) {said_by(turn)}", _name(turn, named))
    if turn.role in ROLES:
        return _message(turn.role, said_by(turn), _name(turn, named))
    return _message("user", said_by(turn), _cleaned(turn.name or turn.role))


def _name(turn: Turn, named: bool) -> str | None:
    """The name it was given; of several agents each its own."""
    if turn.role == CALL:
        return _cleaned(turn.agent) if named else None
    return _cleaned(turn.name or (turn.agent if named and turn.role == ASSISTANT else None))


def _cleaned(name: str | None) -> str | None:
    """Without what such APIs refuse in a name."""
    return _NO_NAME.sub("_", name)[:NAME_CHARACTERS_MAX] if name else None


def _message(role: str, content: str, name: str | None) -> Message:
    return {"role": role, "content": content} | ({"name": name} if name else {})


def turn_cost(turn: Turn, count: Count) -> int:
    """Tokens of a turn among messages, at most, whatever stands beside it."""
    calls = calls_of(turn)
    if not calls:
        message = _plain(turn, True)
        as_result = count(turn.call_id or f"call_{turn.seq}") if turn.role in RESULTS else 0
        return message_tokens(message, count) + as_result
    words = _beside_calls(turn)
    made = {"content": words, "tool_calls": [call.message() for call in calls]}
    told = "\n".join([words, *(f"→ {call.name}({call.arguments})" for call in calls)])
    both = (message_tokens(made, count), message_tokens({"content": told}, count))
    return max(both) + count(_name(turn, True) or "")


def _beside_calls(turn: Turn) -> str:
    """What a turn with calls says besides them."""
    return (spoken(turn.content.get("content")) or "") if turn.role == ASSISTANT else ""
