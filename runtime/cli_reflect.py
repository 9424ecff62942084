"""The command that has memories made of conversations now, and how reflection looks in a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from neverforget.runtime.cli_memory_options import FullOption
from neverforget.runtime.cli_memory_render import memory_view
from neverforget.runtime.cli_render import (
    console,
    errors,
    local,
    place,
    print_json,
    printable,
    progress_bar,
)
from neverforget.runtime.cli_store import (
    FAILED,
    MEMORIES,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.memory_json import memory_object
from neverforget.runtime.working_values import counted

if TYPE_CHECKING:
    from neverforget.runtime.reflection_values import FailedRange, ReflectionInfo, ReflectionReport

SHOWN = 5  # of what was learned, and of failed ranges


def register(app: typer.Typer) -> None:
    command(app, "reflect", reflect, REFLECT_EXAMPLES, MEMORIES)


REFLECT_EXAMPLES = """
neverforget reflect ./memory
neverforget reflect ./memory --session dm/mara-smith --json
neverforget reflect ./memory --again        (after another extractor was set)
"""


def reflect(
    store: StoreArgument,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this session; else all that wait.")
    ] = None,
    namespace: NamespaceOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also what another extractor was at before.")
    ] = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make memories of what was said, now, and wait until that is done.

    A host does so by itself, every reflect_every_turns turns of a session. Shows the newest of what
    was learned. What failed before is tried again; exit code 1 if something fails. Interrupted, it
    goes on where the store is hosted; elsewhere the next reflect does the rest.
    """
    from neverforget.runtime.reflecting import newest_learned

    with opened(store) as opened_store:
        view = opened_store.scoped(namespace=tuple(namespace or ()))
        chat = None if session is None else view.session(session)
        if chat is not None and not chat.info().turns:
            errors().print(f"no turns in {place(chat.namespace, chat.name)}", markup=False)
        with progress_bar("reflecting", in_bytes=False, quiet=as_json) as update:
            report = view.reflect(chat, again=again, progress=update)
        shown = min(report.facts, SHOWN)
        learned = view._run(newest_learned(view._scope.root, session, report.extractor, shown))
        told = [(memory, view.provenance(memory.id)) for memory in learned]
    if as_json:
        items = [memory_object(memory) for memory in learned]
        print_json({**msgspec.to_builtins(report), "newest": items})
    else:
        out = console()
        out.print(summary(report), markup=False)
        for memory, provenance in told:
            out.print(memory_view(memory, provenance=provenance, full=full, wrap=out.is_terminal))
        print_failed(report.failed, len(report.failed))
    if report.failed:
        raise typer.Exit(FAILED)


def summary(report: ReflectionReport) -> str:
    """What one ``reflect`` has done, in a line."""
    by = f"by {printable(report.extractor)}"
    if not report.turns:  # where an endpoint is away, nothing is done and nothing is set aside
        return f"nothing was reflected, {by}" if report.failed else "nothing waits to be reflected"
    turns = f"{counted(report.turns, 'turn')} in {counted(report.sessions, 'session')}"
    return f"{counted(report.facts, 'memory')} of {turns}, {by}"


def reflection_rows(found: ReflectionInfo) -> dict[str, Any]:
    """For ``status``."""
    waits = f"{counted(found.turns, 'turn')} of {counted(found.sessions, 'session')}"
    if found.oldest_at is not None:
        waits += f", the oldest of {local(found.oldest_at)}"
    rows: dict[str, Any] = {
        "extractor": printable(found.extractor),
        "to be reflected": waits if found.turns else "0",
    }
    done = f"{counted(found.turns_reflected, 'turn')}, {counted(found.facts, 'memory')}"
    failed = f"{counted(found.failures, 'range')} (reflect tries again)"
    optional = {
        "due now": found.due and counted(found.due, "session"),
        "being reflected": found.running and counted(found.running, "session"),
        "since it runs": found.turns_reflected and done,
        "not reflectable": found.failures and failed,
        "reflector says": found.error and printable(found.error),
    }
    return rows | {name: said for name, said in optional.items() if said}


def print_failed(failed: tuple[FailedRange, ...], count: int) -> None:
    """The newest of ``count`` ranges of which no memories could be made."""
    out = console()
    for each in failed[-SHOWN:]:
        where = place(each.namespace, each.session)
        times = counted(each.tries, "time")
        said = f"failed: {where} #{each.first}-{each.last}, {times}: {each.error}"
        out.print(printable(said), markup=False, style="red")
    if count > SHOWN:
        out.print(f"… and {count - SHOWN:,} more that failed", markup=False, style="red")
