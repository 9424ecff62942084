"""Commands about what an agent has in mind: context, working-memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from neverforget.runtime.cli_memory_options import FullOption
from neverforget.runtime.cli_memory_render import QUIET, memory_view
from neverforget.runtime.cli_render import console, errors, local, print_json, printable
from neverforget.runtime.cli_store import (
    MEMORIES,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.context_ranking import checked_strategy
from neverforget.runtime.memory_json import memory_object, target_object
from neverforget.runtime.turn_json import format_timestamp, turn_object
from neverforget.runtime.working_core import MAX_TOKENS
from neverforget.runtime.working_values import counted

if TYPE_CHECKING:
    from neverforget.runtime.working_memory import WorkingMemory
    from neverforget.runtime.working_values import Context, WorkingItem, WorkingMember


def register(app: typer.Typer) -> None:
    command(app, "context", context, CONTEXT_EXAMPLES, MEMORIES)
    command(app, "working-memory", working_memory, WORKING_EXAMPLES, MEMORIES)


AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="Who has it in mind.")]
GroupOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What the members of this group share.")
]

CONTEXT_EXAMPLES = """
neverforget context ./memory ada
neverforget context ./memory ada --session support/4711 --max-tokens 4000
neverforget context ./memory ada --recall "where do parcels go" --messages | jq
"""


def context(
    store: StoreArgument,
    agent: AgentArgument,
    group: GroupOption = None,
    namespace: NamespaceOption = None,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="With the newest turns of this session.")
    ] = None,
    recall: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Recall this into it first.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="At most so long.")
    ] = MAX_TOKENS,
    strategy: Annotated[
        str, typer.Option(help="Which memories first: balanced, recent or important.")
    ] = "balanced",
    messages: Annotated[
        bool, typer.Option("--messages", help="As the messages of a chat API, in JSON.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what an agent has in mind, ready for a prompt.

    The memories in its working memory, the pinned ones first, and with --session the newest turns
    of a conversation with a summary of what came before, all within --max-tokens.
    """
    which = checked_strategy(strategy)
    with opened(store, agent=agent) as opened_store:
        view = opened_store.scoped(namespace=tuple(namespace or ()))
        mind = view.working_memory(agent, group=group)
        if recall is not None:
            mind.recall(recall)
        chat = None if session is None else view.session(session)
        made = mind.context(which, max_tokens=max_tokens, conversation=chat)
    if messages:
        print_json(made.messages())
    elif as_json:
        print_json(context_object(made))
    else:
        console().print(Text(printable(str(made))))
        errors().print(_told(made, session), style=QUIET, markup=False)


def _told(made: Context, session: str | None) -> str:
    """What a person should know about it as a whole."""
    said = [f"{made.tokens:,} of {made.max_tokens:,} tokens"]
    said.append(counted(len(made.items), "memory"))
    left = made.left_out
    if made.turns:
        said.append(counted(len(made.turns), "turn"))
    elif session is not None and not left.turns:
        said.append(f"nothing was said in {printable(repr(session))} yet")
    out = [counted(n, what) for n, what in ((left.memories, "memory"), (left.turns, "turn")) if n]
    return ", ".join(said) + (f"; no room for {' and '.join(out)}" if out else "")


def context_object(made: Context) -> dict[str, Any]:
    """A context for a program."""
    return {
        "text": str(made),
        "tokens": made.tokens,
        "max_tokens": made.max_tokens,
        "items": [
            {
                "memory": memory_object(item.memory),
                "pinned": item.pinned,
                "score": item.score,
                "tokens": item.tokens,
                "text": item.text,
                "provenance": [target_object(ref) for ref in item.provenance],
            }
            for item in made.items
        ],
        "turns": [turn_object(turn) for turn in made.turns],
        "summary": made.summary,
        "left_out": {"memories": made.left_out.memories, "turns": made.left_out.turns},
    }


WORKING_EXAMPLES = """
neverforget working-memory ./memory ada
neverforget working-memory ./memory ada --group support --json
"""


def working_memory(
    store: StoreArgument,
    agent: AgentArgument,
    group: GroupOption = None,
    namespace: NamespaceOption = None,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the working memory of an agent, or of a group: what is in it, and how full it is.

    Each memory is shown with its tokens, when it was last used, and how often it was recalled.
    """
    with opened(store) as opened_store:
        view = opened_store.scoped(namespace=tuple(namespace or ()))
        # Who looks on is no member that is there: nobody is named to the group.
        mind = view.working_memory(None if group else agent, group=group)
        items, used, members = list(mind), mind.utilization, mind.members()
    if as_json:
        print_json(working_object(mind, items, used, members))
        return
    out = console()
    for number, item in enumerate(items, 1):
        out.print(
            memory_view(
                item.memory,
                number=number,
                found=_used(item),
                provenance=item.provenance,
                full=full,
                wrap=out.is_terminal,
            )
        )
    tokens = sum(item.tokens for item in items)
    said = f"{counted(len(items), 'memory')}, {tokens:,} tokens, {used:.0%} of its budget"
    errors().print(said if items else "nothing in it", style=QUIET, markup=False)
    for member in members:
        state = "active" if member.active else "stands by"
        joined = f"joined {local(member.joined_at)}"
        errors().print(f"{printable(member.agent)}: {state}, {joined}", style=QUIET, markup=False)


def _used(item: WorkingItem) -> str:
    said = [f"{item.tokens:,} tokens", f"used {local(item.used_at)}"]
    if item.accesses:
        said.append(f"recalled {counted(item.accesses, 'time')}")
    if item.pinned:
        said.insert(0, "pinned")
    return ", ".join(said)


def working_object(
    mind: WorkingMemory, items: list[WorkingItem], used: float, members: list[WorkingMember]
) -> dict[str, Any]:
    """A working memory for a program."""
    return {
        "namespace": list(mind.namespace),
        "agent": mind.agent,
        "group": mind.group,
        "utilization": used,
        "tokens": sum(item.tokens for item in items),
        "items": [
            {
                "memory": memory_object(item.memory),
                "tokens": item.tokens,
                "pinned": item.pinned,
                "added_at": format_timestamp(item.added_at),
                "used_at": format_timestamp(item.used_at),
                "accesses": item.accesses,
                "provenance": [target_object(ref) for ref in item.provenance],
            }
            for item in items
        ],
        "members": [
            {
                "agent": member.agent,
                "joined_at": format_timestamp(member.joined_at),
                "seen_at": None if member.seen_at is None else format_timestamp(member.seen_at),
                "active": member.active,
            }
            for member in members
        ],
    }
