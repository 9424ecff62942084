"""The command that says who uses a store: agents."""

from __future__ import annotations

from typing import Any

import typer
from rich.text import Text

from neverforget.runtime.agent_values import AgentInfo
from neverforget.runtime.cli_render import columns, console, errors, local, print_json, printable
from neverforget.runtime.cli_store import (
    THE_STORE,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.turn_json import format_timestamp


def register(app: typer.Typer) -> None:
    command(app, "agents", agents, EXAMPLES, THE_STORE)


EXAMPLES = """
neverforget agents ./memory
neverforget agents ./memory --namespace acme --json
"""


def agents(
    store: StoreArgument, namespace: NamespaceOption = None, as_json: JsonOption = False
) -> None:
    """Show who uses a store: each agent, when it was last active, what it wrote and how often it
    recalled. The one that was active last comes first."""
    with opened(store) as opened_store:
        found = opened_store.scoped(namespace=tuple(namespace or ())).agents()
    if as_json:
        print_json({"items": [agent_object(info) for info in found]})
        return
    if not found:
        errors().print("nobody has given a name yet", style="bright_black")
        return
    numbers = ("turns", "sessions", "memories", "recalls")
    table = columns("agent", "last active", *numbers, right=numbers)
    for info in found:
        counts = (f"{getattr(info, name):,}" for name in numbers)
        table.add_row(Text(printable(info.agent), "bold"), local(info.last_active), *counts)
    console().print(table)


def agent_object(info: AgentInfo) -> dict[str, Any]:
    """One agent for a program."""
    at = info.last_active
    return {
        "agent": info.agent,
        "last_active": None if at is None else format_timestamp(at),
        "turns": info.turns,
        "sessions": info.sessions,
        "memories": info.memories,
        "recalls": info.recalls,
    }
