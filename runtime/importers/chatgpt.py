"""ChatGPT's data export, ``conversations.json``: each conversation is a tree of messages.

Session ``chatgpt/{conversation id}`` is the path from the root to ``current_node``; every other
branch is a session ``chatgpt/{conversation id}#{leaf id}`` with its whole path, so that each reads
from the beginning. The key of a turn is its message's id. Plain text stays text; anything else
(code, images, what a tool put out) is kept as the object that it is. A message of the assistant to
a tool is a ``tool_call``. What ChatGPT does not show is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from neverforget.runtime.importers.source_turn import Branch, Malformed, Parsed, Place, SourceTurn
from neverforget.runtime.turn_json import parse_timestamp

HIDDEN_BY_CHATGPT = "is_visually_hidden_from_conversation"


class ChatGPTExport:
    name = "chatgpt"

    def recognises(self, value: Any) -> bool:
        return isinstance(value, dict) and isinstance(value.get("mapping"), dict)

    def parse(self, value: Any, place: Place, stem: str) -> Iterator[Parsed]:
        if not self.recognises(value):
            raise Malformed("a ChatGPT conversation must be an object with a mapping")
        name = value.get("conversation_id") or value.get("id")
        if not isinstance(name, str):
            raise Malformed("the conversation has no id")
        session = f"chatgpt/{name}"
        tree = _Tree(value["mapping"])
        leaves = tree.leaves()
        current = _current(value, tree, leaves)
        if value.get("current_node") not in (None, current):
            yield place.problem(
                f"{session}: its current_node is missing, the newest branch stands in"
            )
        shown: set[tuple[str, ...]] = set()
        for leaf in [current, *(leaf for leaf in leaves if leaf != current)]:
            try:
                path = tree.path(leaf)
            except Malformed as error:
                yield place.problem(f"{session}#{leaf}: {error}")
                continue
            turns, problems = _turns(path, value, place)
            for problem in problems:
                yield place.problem(f"{session}: {problem}")
            keys = tuple(turn.fields["key"] for turn in turns)
            # A leaf without a message of its own adds nothing to the branch that it ends.
            if not turns or any(keys == other[: len(keys)] for other in shown):
                continue
            shown.add(keys)
            branch = f"{session}#{leaf}"
            yield Branch(session if leaf == current else branch, branch, turns)


class _Tree:
    def __init__(self, mapping: Mapping[str, Any]) -> None:
        self._nodes = {n: node for n, node in mapping.items() if isinstance(node, dict)}

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def leaves(self) -> list[str]:
        """In the order of the file. The parents' links decide: the lists of children may lag
        behind."""
        parents = {
            parent for node in self._nodes.values() if isinstance(parent := node.get("parent"), str)
        }
        return [name for name in self._nodes if name not in parents]

    def path(self, leaf: str) -> list[tuple[str, Mapping[str, Any]]]:
        path: list[tuple[str, Mapping[str, Any]]] = []
        seen: set[str] = set()
        name: str | None = leaf
        while name is not None:
            if name in seen:
                raise Malformed("the messages form a circle")
            seen.add(name)
            node = self._nodes.get(name)
            if node is None:
                raise Malformed(f"the message {name} is missing on the way to the first one")
            path.append((name, node))
            parent = node.get("parent")
            name = parent if isinstance(parent, str) else None
        return path[::-1]

    def newest(self, leaves: list[str]) -> str:
        return max(leaves, key=lambda leaf: _created(self._nodes[leaf].get("message")) or 0.0)


def _current(value: Mapping[str, Any], tree: _Tree, leaves: list[str]) -> str:
    current = value.get("current_node")
    if isinstance(current, str) and current in tree:
        return current
    if not leaves:
        raise Malformed("the conversation has no messages that end it")
    return tree.newest(leaves)


def _turns(
    path: list[tuple[str, Mapping[str, Any]]], conversation: Mapping[str, Any], place: Place
) -> tuple[list[SourceTurn], list[str]]:
    turns: list[SourceTurn] = []
    problems: list[str] = []
    at = _time(conversation.get("create_time"))
    for name, node in path:
        message = node.get("message")
        if message is None:  # the root has none
            continue
        try:
            turn = _turn(name, message, place)
        except Malformed as error:
            problems.append(f"message {name}: {error}")
            continue
        at = turn.fields.get("timestamp") or at
        if (
            at is not None
        ):  # hidden messages have no time of their own: they get that of the one before
            turn.fields["timestamp"] = at
        if not turns and isinstance(title := conversation.get("title"), str):
            turn.fields.setdefault("metadata", {})["title"] = title
        turns.append(turn)
    return turns, problems


def _turn(name: str, message: Any, place: Place) -> SourceTurn:
    if not isinstance(message, dict) or not isinstance(author := message.get("author"), dict):
        raise Malformed("it has no author")
    role = author.get("role")
    if not isinstance(role, str) or not role:
        raise Malformed("its author has no role")
    recipient = message.get("recipient")
    calls = role == "assistant" and recipient not in (None, "all")
    metadata: dict[str, Any] = {}
    details = message.get("metadata")
    details = details if isinstance(details, dict) else {}
    if details:
        metadata["chatgpt"] = details
    if calls:
        metadata["recipient"] = recipient
    fields: dict[str, Any] = {
        "role": "tool_call" if calls else role,
        "content": _content(message.get("content")),
        "key": message["id"] if isinstance(message.get("id"), str) else name,
    }
    if isinstance(author.get("name"), str) and author["name"]:
        fields["name"] = author["name"]
    if (at := _time(message.get("create_time"))) is not None:
        fields["timestamp"] = at
    if metadata:
        fields["metadata"] = metadata
    state = "hidden" if details.get(HIDDEN_BY_CHATGPT) is True else "ok"
    return SourceTurn(session="", line=place.line, fields=fields, state=state)


def _content(content: Any) -> Any:
    if isinstance(content, dict) and content.get("content_type") == "text":
        parts = content.get("parts")
        if isinstance(parts, list) and all(isinstance(part, str) for part in parts):
            return "\n\n".join(parts)
    return content


def _created(message: Any) -> float | None:
    at = _time(message.get("create_time")) if isinstance(message, dict) else None
    return None if at is None else at.timestamp()


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        return parse_timestamp(value).astimezone(UTC)
    except ValueError:
        return None
