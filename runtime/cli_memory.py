"""Commands that remember, and show what was remembered: remember, get, memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from neverforget.runtime.cli_arguments import (
    json_object,
    text_argument,
    time_argument,
    timeframe_argument,
)
from neverforget.runtime.cli_memory_options import (
    ConfidenceOption,
    FileOption,
    FullOption,
    ImportanceOption,
    MetadataOption,
    MomentOption,
    TagOption,
    TimeframeOption,
    TypeOption,
    WhereOption,
)
from neverforget.runtime.cli_memory_render import memory_pairs, memory_view, remarks_of
from neverforget.runtime.cli_render import (
    console,
    errors,
    pairs,
    print_json,
    printable,
    write_stdout,
)
from neverforget.runtime.cli_store import (
    MEMORIES,
    AgentOption,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.memory_json import memory_line, memory_object
from neverforget.runtime.turn_json import format_timestamp
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory, MemoryStatus


def register(app: typer.Typer) -> None:
    command(app, "remember", remember, REMEMBER_EXAMPLES, MEMORIES)
    command(app, "get", get, GET_EXAMPLES, MEMORIES)
    command(app, "memories", memories, MEMORIES_EXAMPLES, MEMORIES)


REMEMBER_EXAMPLES = """
neverforget remember ./memory "Mara wants pull requests under 200 lines" --tag review
neverforget remember ./memory "The pilot went live" --type event --occurred-at 2026-04-13
git log -1 --format=%B | neverforget remember ./memory - --source git --key "$(git rev-parse HEAD)"
"""


def remember(
    store: StoreArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help='What to remember; "-" reads it.', show_default=False),
    ] = None,
    file: FileOption = None,
    namespace: NamespaceOption = None,
    agent: AgentOption = None,
    tag: TagOption = None,
    type_: TypeOption = None,
    importance: ImportanceOption = None,
    confidence: ConfidenceOption = None,
    key: Annotated[
        str | None, typer.Option(help="Makes it safe to repeat: one memory a key and namespace.")
    ] = None,
    on_conflict: Annotated[
        str, typer.Option(help="If the key holds something else: raise, or revise.")
    ] = "raise",
    speaker: Annotated[str | None, typer.Option(help="Whose words it holds.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it is from.")] = None,
    metadata: MetadataOption = None,
    occurred_at: MomentOption = None,
    valid_from: MomentOption = None,
    valid_to: MomentOption = None,
    related_to: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A memory it belongs to; may be given several times."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remember a text, to be recalled by meaning, words, time and tags. Prints its id.

    When this returns, the memory survives a power loss. What it means is worked out in the
    background; where no process hosts the store, the next command that recalls does it.
    """
    body = text_argument(text, file)
    given: dict[str, Any] = {
        "type": type_,
        "importance": importance,
        "confidence": confidence,
        "metadata": json_object("--metadata", metadata),
        "occurred_at": _time(occurred_at),
        "valid_from": _time(valid_from),
        "valid_to": _time(valid_to),
    }
    remarks: list[str] = []
    with opened(store, create=True, agent=agent) as opened_store:
        memory = opened_store.remember(
            body,
            key=key,
            on_conflict=on_conflict,  # type: ignore[arg-type]  # other words are refused there
            tags=tuple(tag or ()),
            source=source,
            speaker=speaker,
            namespace=tuple(namespace or ()),
            related_to=tuple(related_to or ()),
            **{name: value for name, value in given.items() if value is not None},
        )
        if len(body) > opened_store.config.chunk_over_characters and not as_json:
            remarks = remarks_of(opened_store.status().longterm)
    print_written(memory, as_json=as_json)
    for remark in remarks:
        errors().print(remark, style="bright_black", markup=False)


GET_EXAMPLES = """
neverforget get ./memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
neverforget get ./memory --key facts/deploy-day --json | jq .text
"""


def get(
    store: StoreArgument,
    memory_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id of the memory.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Find it by its key instead.")] = None,
    namespace: NamespaceOption = None,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Show it although it was forgotten.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one memory with everything that is known about it."""
    if (memory_id is None) == (key is None):
        raise InvalidArgument("give either the ID of a memory or --key KEY")
    with opened(store) as opened_store:
        memory = opened_store.get(
            memory_id, key=key, namespace=tuple(namespace or ()), include_forgotten=forgotten
        )
        alive = memory.status != "forgotten"  # the relations of a forgotten one are forgotten too
        relations = opened_store.relations(memory.id) if alive else []
        provenance = opened_store.provenance(memory.id) if alive else []
    if as_json:
        outward = [each for each in relations if each.source == memory.id]
        write_stdout(memory_line(memory, relations=outward, extra=written(memory)))
        return
    out = console()
    out.print(printable(memory.text), markup=False)
    out.print()
    out.print(pairs("", memory_pairs(memory, relations, provenance)))


MEMORIES_EXAMPLES = """
neverforget memories ./memory --tag review -n 20
neverforget memories ./memory --timeframe "last month" --type decision
neverforget memories ./memory --status archived --json | jq -r '.items[].text'
"""


def memories(
    store: StoreArgument,
    namespace: NamespaceOption = None,
    tag: TagOption = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only these; may be given several times.")
    ] = None,
    by_agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    timeframe: TimeframeOption = None,
    where: WhereOption = None,
    status: Annotated[str, typer.Option(help="active, archived, forgotten or all.")] = "active",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on from here.")] = None,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """List memories in the order in which they were remembered."""
    with opened(store) as opened_store:
        found = opened_store.memories(
            namespace=tuple(namespace) if namespace else None,
            types=tuple(type_) if type_ else None,
            tags=tuple(tag) if tag else None,
            agent=by_agent,
            where=json_object("--where", where),
            timeframe=timeframe_argument(timeframe),
            # Other words are refused there.
            status=cast("MemoryStatus | None", None if status == "all" else status),
            after=after,
            limit=limit,
        )
    if as_json:
        items = [memory_object(memory) for memory in found]
        print_json({"items": items, "next": found.next, "has_more": found.has_more})
        return
    out = console()
    for memory in found:
        out.print(memory_view(memory, full=full, wrap=out.is_terminal))
    if found.has_more:
        errors().print(f"more: --after {found.next}", style="bright_black", markup=False)
    elif not found and after is None:
        errors().print("no memories", style="bright_black")


def _time(text: str | None) -> Any:
    return None if text is None else time_argument(text)


def written(memory: Memory) -> dict[str, Any]:
    return {"revised_at": format_timestamp(memory.revised_at), "by": memory.by}


def print_written(memory: Memory, *, as_json: bool, what: str = "") -> None:
    """The id, for whoever wants to go on with it."""
    if as_json:
        write_stdout(memory_line(memory, extra=written(memory)))
        return
    console().print(memory.id)
    if what:
        errors().print(what, style="bright_black", markup=False)
