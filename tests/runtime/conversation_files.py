"""Generated look-alikes of what other systems export."""

from __future__ import annotations

from typing import Any


def message_node(
    name: str,
    parent: str | None = "root",
    *,
    role: str = "user",
    text: str = "text",
    parts: list[Any] | None = None,
    content: Any = None,
    at: float | None = None,
    recipient: str = "all",
    author: str | None = None,
    hidden: bool = False,
) -> dict[str, Any]:
    """A node of a ChatGPT conversation's mapping."""
    default = {"content_type": "text", "parts": [text] if parts is None else parts}
    return {
        "id": name,
        "parent": parent,
        "children": [],
        "message": {
            "id": name,
            "author": {"role": role, "name": author, "metadata": {}},
            "create_time": at,
            "content": default if content is None else content,
            "recipient": recipient,
            "metadata": {"is_visually_hidden_from_conversation": True} if hidden else {},
        },
    }


def chatgpt_conversation(
    name: str,
    nodes: list[dict[str, Any]],
    *,
    current: str | None = None,
    title: str = "untitled",
) -> dict[str, Any]:
    """A conversation of conversations.json; its root has no message, as there."""
    root: dict[str, Any] = {"id": "root", "parent": None, "children": [], "message": None}
    mapping = {node["id"]: node for node in [root, *nodes]}
    for node in nodes:
        if node["parent"] in mapping:
            mapping[node["parent"]]["children"].append(node["id"])
    return {
        "title": title,
        "create_time": 1_700_000_000.0,
        "mapping": mapping,
        "current_node": current or nodes[-1]["id"],
        "conversation_id": name,
        "id": name,
    }


def locomo_sample(name: str, *, sessions: int, turns: int = 4) -> dict[str, Any]:
    """A LoCoMo sample; as there, it has more dates than sessions."""
    conversation: dict[str, Any] = {"speaker_a": "Anouk", "speaker_b": "Bram"}
    for number in range(1, sessions + 3):
        conversation[f"session_{number}_date_time"] = f"1:56 pm on {number} January, 2024"
    for number in range(1, sessions + 1):
        conversation[f"session_{number}"] = [
            {
                "speaker": ("Anouk", "Bram")[turn % 2],
                "dia_id": f"D{number}:{turn + 1}",
                "text": f"Turn {turn} of the talk number {number}.",
                **({"blip_caption": "a photo of a lake"} if turn == 1 else {}),
            }
            for turn in range(turns)
        ]
    return {"sample_id": name, "conversation": conversation, "qa": []}
