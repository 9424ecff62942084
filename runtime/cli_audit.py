"""Commands that say who deleted what: audit, deletion-report."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from neverforget.runtime.cli_arguments import timeframe_argument
from neverforget.runtime.cli_memory_options import TimeframeOption
from neverforget.runtime.cli_memory_render import audit_view
from neverforget.runtime.cli_render import console, errors, pairs, print_json
from neverforget.runtime.cli_store import (
    FORGETTING,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.storage.errors import InvalidArgument


def register(app: typer.Typer) -> None:
    command(app, "audit", audit, AUDIT_EXAMPLES, FORGETTING)
    command(app, "deletion-report", deletion_report, REPORT_EXAMPLES, FORGETTING)


AUDIT_EXAMPLES = """
neverforget audit ./memory
neverforget audit ./memory --operation forget --timeframe "last 7 days" --json
neverforget audit ./memory --memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
"""


def audit(
    store: StoreArgument,
    operation: Annotated[
        str | None,
        typer.Option(help="Only this: forget, undo-forget, erase, forget-refused, evict, …"),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Only what this one did.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what was done to this memory.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what was done to this session.")
    ] = None,
    namespace: NamespaceOption = None,
    timeframe: TimeframeOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on from here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was hidden, forgotten, archived, purged, erased and evicted, by whom, when and why,
    and what was refused. Oldest first."""
    if memory is not None and session is not None:
        raise InvalidArgument("give --memory or --session, not both")
    place = tuple(namespace or ())
    with opened(store) as opened_store:
        target: Any = memory
        view = opened_store
        if session is not None:
            target = opened_store.session(session, namespace=place)
        elif place:
            view = opened_store.scoped(namespace=place)
        found = view.audit(
            operation=operation,
            by=by,
            target=target,
            timeframe=timeframe_argument(timeframe),
            after=after,
            limit=limit,
        )
    if as_json:
        items = [msgspec.to_builtins(entry) for entry in found]
        print_json({"items": items, "next": found.next, "has_more": found.has_more})
        return
    out = console()
    for entry in found:
        out.print(audit_view(entry, wrap=out.is_terminal))
    if found.has_more:
        errors().print(f"more: --after {found.next}", style="bright_black", markup=False)
    elif not found and after is None:
        errors().print("nothing on record", style="bright_black")


REPORT_EXAMPLES = """
neverforget deletion-report ./memory "last month"
neverforget deletion-report ./memory 2026-01-01..2026-04-01 --json
"""


def deletion_report(
    store: StoreArgument,
    timeframe: Annotated[
        str, typer.Argument(metavar="WHEN", help='"last month", 2026-03, START..STOP.')
    ],
    as_json: JsonOption = False,
) -> None:
    """Count what was deleted in a span of time, what was brought back, and by whom."""
    with opened(store) as opened_store:
        report = opened_store.deletion_report(timeframe_argument(timeframe))
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    told = msgspec.structs.asdict(report)
    counts = {name: f"{value:,}" for name, value in told.items() if isinstance(value, int)}
    out = console()
    out.print(pairs("", counts))
    if report.by:
        out.print()
        out.print(pairs("by whom", {who: f"{n:,}" for who, n in report.by.items()}))
