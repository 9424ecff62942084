"""Commands that change memories: revise, history, tag, relate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from neverforget.runtime.cli_arguments import json_object, optional_text, time_argument
from neverforget.runtime.cli_memory import print_written, written
from neverforget.runtime.cli_memory_options import (
    ConfidenceOption,
    FileOption,
    FullOption,
    IdArgument,
    ImportanceOption,
    MomentOption,
    TypeOption,
)
from neverforget.runtime.cli_memory_render import memory_view
from neverforget.runtime.cli_render import console, local, printable, write_stdout
from neverforget.runtime.cli_store import (
    MEMORIES,
    AgentOption,
    JsonOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.memory_json import memory_line
from neverforget.storage.errors import InvalidArgument

NONE = "none"  # takes a value away in a revision


def register(app: typer.Typer) -> None:
    command(app, "revise", revise, REVISE_EXAMPLES, MEMORIES)
    command(app, "history", history, HISTORY_EXAMPLES, MEMORIES)
    command(app, "tag", tag, TAG_EXAMPLES, MEMORIES)
    command(app, "relate", relate, RELATE_EXAMPLES, MEMORIES)


REVISE_EXAMPLES = """
neverforget revise ./memory 0199a8f3-… "We deploy on Tuesdays before noon"
neverforget revise ./memory 0199a8f3-… --importance 9 --valid-to 2026-04-07
neverforget revise ./memory 0199a8f3-… --file policy.md --expect-version 3
"""


def revise(
    store: StoreArgument,
    memory_id: IdArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help='The new text; "-" reads it.', show_default=False),
    ] = None,
    file: FileOption = None,
    agent: AgentOption = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="Replaces all tags; see tag as well."),
    ] = None,
    type_: TypeOption = None,
    importance: ImportanceOption = None,
    confidence: ConfidenceOption = None,
    speaker: Annotated[str | None, typer.Option(help="Whose words it holds.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it is from.")] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="An object; replaces the old one.")
    ] = None,
    occurred_at: MomentOption = None,
    valid_from: MomentOption = None,
    valid_to: MomentOption = None,
    expect_version: Annotated[
        int | None, typer.Option(min=1, help="Only if this is the current version.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a new version of a memory; the ones before stay in its history.

    What is not named stays as it is; the word none takes a time, speaker or source away.
    """
    given: dict[str, Any] = {
        "text": optional_text(text, file),
        "tags": None if tag is None else tuple(each for each in tag if each != NONE),
        "type": type_,
        "importance": importance,
        "confidence": confidence,
        "metadata": json_object("--metadata", metadata),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    for name, value in (("speaker", speaker), ("source", source)):
        if value is not None:
            changes[name] = None if value == NONE else value
    times = (("occurred_at", occurred_at), ("valid_from", valid_from), ("valid_to", valid_to))
    for name, value in times:
        if value is not None:
            changes[name] = None if value == NONE else time_argument(value)
    if not changes:
        raise InvalidArgument("nothing to revise; give a text or an option that says what is new")
    with opened(store, agent=agent) as opened_store:
        memory = opened_store.revise(memory_id, expect_version=expect_version, **changes)
    print_written(memory, as_json=as_json, what=f"version {memory.version}")


HISTORY_EXAMPLES = """
neverforget history ./memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
"""


def history(
    store: StoreArgument,
    memory_id: IdArgument,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show every version of a memory, oldest first."""
    with opened(store) as opened_store:
        versions = opened_store.history(memory_id)
    if as_json:
        for memory in versions:
            write_stdout(memory_line(memory, extra=written(memory)))
        return
    out = console()
    for memory in versions:
        by = f" by {memory.by}" if memory.by else ""
        told = f"version {memory.version} of {local(memory.revised_at, seconds=True)}{by}"
        out.print(memory_view(memory, found=printable(told), full=full, wrap=out.is_terminal))


TAG_EXAMPLES = """
neverforget tag ./memory 0199a8f3-… --add ai:llm --add review
neverforget tag ./memory 0199a8f3-… --remove review
"""


def tag(
    store: StoreArgument,
    memory_id: IdArgument,
    add: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="May be given several times.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="May be given several times.")
    ] = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add tags to a memory, or take some away. Prints those that it has then."""
    if not add and not remove:
        raise InvalidArgument("give --add TAG or --remove TAG")
    with opened(store, agent=agent) as opened_store:
        if add:
            opened_store.tag(memory_id, *add)
        if remove:
            opened_store.untag(memory_id, *remove)
        memory = opened_store.get(memory_id)
    if as_json:
        write_stdout(memory_line(memory))
    else:
        console().print(printable(", ".join(memory.tags)) or "no tags", markup=False)


RELATE_EXAMPLES = """
neverforget relate ./memory 0199a8f3-… 0199a8f4-… --kind replaces
neverforget relate ./memory 0199a8f3-… 0199a8f4-… --kind replaces --remove
"""


def relate(
    store: StoreArgument,
    source: Annotated[str, typer.Argument(metavar="FROM", help="Id of a memory.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Id of another one.")],
    kind: Annotated[str, typer.Option(help="What the first is to the second.")] = "related-to",
    weight: Annotated[float, typer.Option(help="How strongly.")] = 1.0,
    remove: Annotated[bool, typer.Option("--remove", help="Take the relation away.")] = False,
    agent: AgentOption = None,
) -> None:
    """Relate one memory to another; `get` shows it from both ends."""
    with opened(store, agent=agent) as opened_store:
        if remove:
            opened_store.unrelate(source, target, kind)
        else:
            opened_store.relate(source, target, kind, weight=weight)
