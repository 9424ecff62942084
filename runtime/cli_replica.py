"""The command that makes a lost store again from its replica."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from neverforget.runtime.cli_render import console, print_json, progress_bar
from neverforget.runtime.cli_store import (
    THE_STORE,
    JsonOption,
    StoreArgument,
    command,
    store_path,
)


def register(app: typer.Typer) -> None:
    command(app, "restore", restore, RESTORE_EXAMPLES, THE_STORE)


RESTORE_EXAMPLES = """
neverforget restore ./memory --from s3://bucket/prefix
neverforget restore ./memory --from file:///mnt/replica --store-id ID
"""


def restore(
    store: StoreArgument,
    url: Annotated[
        str, typer.Option("--from", metavar="URL", help="Where the store was shipped to.")
    ],
    store_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Which store, where several are there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a store again, in a new or empty folder, from what was shipped.

    Whoever served it before is fenced: it acknowledges nothing any more. Interrupted, the same
    command goes on.
    """
    from neverforget.runtime.restoring import restore as restore_store

    path = store_path(store)
    with progress_bar("restoring logs", in_bytes=False, quiet=as_json) as update:
        report = restore_store(path, url, store_id=store_id, progress=update)
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    console().print(
        f"{report.sessions:,} sessions with {report.turns:,} turns and {report.memories:,} "
        f"memories, from {report.objects:,} objects",
        markup=False,
    )
