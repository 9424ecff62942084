"""The command that makes a store again from its replica, as it is or as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from neverforget.runtime.cli_render import (
    columns,
    console,
    errors,
    local,
    print_json,
    progress_bar,
    size,
)
from neverforget.runtime.cli_store import (
    STORE_VARIABLE,
    THE_STORE,
    JsonOption,
    command,
    store_path,
)
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.restore_points import RestorePoints


def register(app: typer.Typer) -> None:
    command(app, "restore", restore, RESTORE_EXAMPLES, THE_STORE)


RESTORE_EXAMPLES = """
neverforget restore ./memory --from s3://bucket/prefix
neverforget restore ./memory --from file:///mnt/replica --store-id ID
neverforget restore --list --from s3://bucket/prefix
neverforget restore ./as-of-noon --from s3://bucket/prefix --at 2026-11-30T12:00:00Z
"""


def restore(
    url: Annotated[
        str, typer.Option("--from", metavar="URL", help="Where the store was shipped to.")
    ],
    store: Annotated[
        str,
        typer.Argument(
            metavar="[STORE]", envvar=STORE_VARIABLE, help="A new or empty folder for the store."
        ),
    ] = "",
    store_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Which store, where several are there.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="As of this time, ISO 8601 with an offset or Z."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Only show what can be restored, and as of when.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", metavar="COUNT", help="With --list: how many of the newest times.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Make a store again, in a new or empty folder, from what was shipped.

    Whoever served it before is fenced: it acknowledges nothing any more. Interrupted, the same
    command goes on.

    With --at a new store is made of what was durable then, with an id of its own and without a
    replica; nobody is fenced. What was erased since is not in it.
    """
    from neverforget.runtime.restore_points import restore_points
    from neverforget.runtime.restoring import restore as restore_store

    if listing:
        if at is not None:
            raise InvalidArgument("--list shows times and --at takes one; leave one of them out")
        _show(restore_points(url, store_id, limit=limit), as_json)
        return
    path = store_path(store)
    with progress_bar("reading objects", in_bytes=True, quiet=as_json) as update:
        report = restore_store(path, url, store_id=store_id, at=at, progress=update)
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    console().print(
        f"sessions: {report.sessions:,}, turns: {report.turns:,}, memories: {report.memories:,}; "
        f"from {report.objects:,} objects, {size(report.bytes)}",
        markup=False,
    )
    if report.at is not None:
        erased = f"; {report.erasures:,} later erasures are kept" if report.erasures else ""
        errors().print(
            f"a new store, {report.store_id}, as of {local(report.at, seconds=True)}, without a "
            f"replica{erased}",
            markup=False,
        )


def _show(found: RestorePoints, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    out = console()
    out.print(f"store {found.store_id}", markup=False)
    logs = columns("log", "objects", "turns", "size", "first", "last", right=("objects", "turns"))
    for log in found.logs:
        times = local(log.first_at, seconds=True), local(log.last_at, seconds=True)
        logs.add_row(log.log, f"{log.objects:,}", f"{log.turns:,}", size(log.bytes), *times)
    out.print(logs)
    points = columns("--at", "turns", "objects", "size", right=("turns", "objects"))
    for point in found.points:
        at = point.at.isoformat().replace("+00:00", "Z")
        points.add_row(at, f"{point.turns:,}", f"{point.objects:,}", size(point.bytes))
    out.print(points)
