"""The command that brings back what an old copy of a store had acknowledged and nobody shipped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from neverforget.runtime.cli_render import console, errors, print_json
from neverforget.runtime.cli_store import THE_STORE, JsonOption, StoreArgument, command, opened
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from neverforget.actors.messages import AnyReply, Request

_ASK_S = 300.0  # a piece is answered when what came of it is shipped


def register(app: typer.Typer) -> None:
    command(app, "salvage", salvage, SALVAGE_EXAMPLES, THE_STORE)


SALVAGE_EXAMPLES = """
neverforget salvage ./memory --from ./old-disk/memory
"""


def salvage(
    store: StoreArgument,
    old: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="The store's folder on the disk that came back.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Bring back what an old folder of a shipped store holds and its replica lacks.

    For a folder that was served before the store was restored elsewhere. Each of its parts is
    renamed to .salvaged-1 when all of it has arrived. A deployed store does this by itself.
    """
    from neverforget.runtime.salvaging import bring_back_all

    with opened(store) as handle:
        url = handle.config.replica
        if url is None:
            raise InvalidArgument("this store has no replica: there is nothing to compare with")
        channel = handle._engine.channel

        def ask(place: int, request: Request) -> AnyReply:
            return channel.call(place, request, time.monotonic() + _ASK_S)

        partitions = handle.config.partitions
        report = bring_back_all(old, handle.status().store_id, partitions, url, ask)
    if as_json:
        print_json(msgspec.structs.asdict(report))
        return
    console().print(
        f"{report.turns:,} turns and memories brought back of {report.records:,} records; "
        f"{report.came_again:,} were there already",
        markup=False,
    )
    if report.conflicts or report.unreadable:
        errors().print(
            f"{report.conflicts:,} conflicts (neverforget audit --operation salvage), "
            f"{report.unreadable:,} records damaged",
            markup=False,
        )
