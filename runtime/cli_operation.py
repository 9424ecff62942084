"""Commands about the store itself: serve, verify, config, reindex."""

from __future__ import annotations

import logging
import shlex
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from neverforget.runtime.cli_render import (
    columns,
    console,
    errors,
    print_json,
    printable,
    progress_bar,
    size,
)
from neverforget.runtime.cli_status import print_findings
from neverforget.runtime.cli_store import (
    FAILED,
    RAY_PREFIX,
    THE_STORE,
    JsonOption,
    StoreArgument,
    command,
    opened,
    store_path,
)

if TYPE_CHECKING:
    from neverforget.runtime.status_values import VerifyReport


def register(app: typer.Typer) -> None:
    command(app, "serve", serve, SERVE_EXAMPLES, THE_STORE)
    command(app, "verify", verify, VERIFY_EXAMPLES, THE_STORE)
    command(app, "config", config, CONFIG_EXAMPLES, THE_STORE)
    command(app, "reindex", reindex, REINDEX_EXAMPLES, THE_STORE)


SERVE_EXAMPLES = """
neverforget serve ./memory
neverforget serve ./memory --linger 60 --set partitions=4
"""


def serve(
    store: StoreArgument,
    linger: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="End so long after the last client has left."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be given several times."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Host the store until SIGINT or SIGTERM, so that any process here can attach to it.

    A store that does not exist yet is created. Whoever opens a store that nobody hosts starts this
    by itself.
    """
    from neverforget.runtime.config import named
    from neverforget.runtime.endpoint import Endpoint
    from neverforget.runtime.host import serve as serve_store
    from neverforget.runtime.serve import settings

    path = store_path(store)
    # In a log file the host's own remarks are wanted, at a terminal only its warnings.
    level = logging.WARNING if sys.stderr.isatty() else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    def ready(endpoint: Endpoint) -> None:
        if as_json:
            print_json({"ready": True, "path": str(path), **msgspec.to_builtins(endpoint)}, out)
            out.flush()
        else:
            until = "interrupted" if linger is None else f"{linger:g} s without clients"
            partitions, pid = len(endpoint.sockets), endpoint.process.pid
            text = f"serving {path}: {partitions} partitions, process {pid}, until {until}"
            errors().print(text, markup=False)

    config = named(None, settings(set_ or []))
    # Ray remarks on standard output when a worker dies; that is kept for data.
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        code = serve_store(path, linger=linger, config=config, ready=ready)
    if code:
        raise typer.Exit(code)


VERIFY_EXAMPLES = """
neverforget verify ./memory
neverforget verify ./memory --json || alert
neverforget verify ./memory --remote       (and every object of its replica)
"""


def verify(
    store: StoreArgument,
    remote: Annotated[
        bool, typer.Option("--remote", help="Read every object of the replica as well.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read everything; check every checksum and index.

    Exit code 1 if bytes are lost.
    """
    with errors().status("reading every record") as _:
        report = _verify_backup(store) if not remote else None
        if report is None:
            with opened(store) as opened_store:
                report = opened_store.verify(remote=remote)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        verdict = Text("ok", "bold green") if report.ok else Text("damaged", "bold red")
        counted = f"  {report.records:,} records, {size(report.bytes)} read"
        if remote:
            counted += f", {report.objects:,} objects"
        text = Text.assemble(verdict, counted)
        console().print(text)
        print_findings(report.findings)
    if not report.ok:
        raise typer.Exit(FAILED)


def _verify_backup(store: str) -> VerifyReport | None:
    """None: STORE is not a backup as it was made."""
    from neverforget.runtime.backups import is_untouched_backup, verify_backup

    if store.startswith(RAY_PREFIX):
        return None
    path = store_path(store)
    return verify_backup(path) if is_untouched_backup(path) else None


CONFIG_EXAMPLES = """
neverforget config ./memory
neverforget config ./memory --json | jq .partitions.value
"""


def config(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Show every setting with its value and where it came from.

    Edit store.toml in the store to change one for its next host.
    """
    with opened(store) as opened_store:
        settings = opened_store.config
    values: dict[str, Any] = settings.as_dict()
    sources = settings.sources
    if as_json:
        print_json({n: {"value": v, "source": sources[n]} for n, v in values.items()})
        return
    table = columns("setting", "value", "from")
    for name, value in values.items():
        shown = (
            f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        )
        table.add_row(name, printable(shown), Text(sources[name], "bright_black"))
    console().print(table)


REINDEX_EXAMPLES = """
neverforget reindex ./memory --embedder minilm
neverforget reindex ./memory --embedder openai:MODEL@https://host/v1
neverforget reindex ./memory --embedder none       (words only)
"""


def reindex(
    store: StoreArgument,
    embedder: Annotated[
        str, typer.Option(metavar="NAME", help="minilm, none, or openai:MODEL@https://host/v1.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Embed every memory anew, by another embedder, and change to it when all of it is done.

    Until then recall answers from the old vectors. Interrupted, it goes on where the store is
    hosted, until it is given up: reindex with the embedder that the store has. Else the same
    command begins again.
    """
    with (
        opened(store) as opened_store,
        progress_bar("embedding memories", in_bytes=False, quiet=as_json) as update,
    ):
        status = opened_store.status()
        try:
            opened_store.reindex(embedder=embedder, progress=update)
        except KeyboardInterrupt:
            if status.host is not None:
                _say_how_to_give_up(store, status.longterm.embedder)
            raise
        found = opened_store.status().longterm
    if as_json:
        told = {"embedder": found.embedder, "model": found.model, "dimension": found.dimension}
        print_json({**told, "vectors": found.vectors, "failed": found.failed})
    else:
        console().print(f"{found.vectors:,} vectors by {found.embedder}", markup=False)


def _say_how_to_give_up(store: str, embedder: str) -> None:
    again = shlex.join(["neverforget", "reindex", store, "--embedder", embedder])
    errors().print(f"it goes on where the store is hosted; to give it up: {again}", markup=False)
