"""Commands about the store itself: serve, status, verify, config, reindex."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from neverforget.runtime.cli_render import (
    columns,
    console,
    errors,
    local,
    pairs,
    print_json,
    printable,
    progress_bar,
    size,
)
from neverforget.runtime.cli_store import (
    FAILED,
    RETRY_S,
    THE_STORE,
    WAIT_S,
    JsonOption,
    StoreArgument,
    command,
    opened,
    store_path,
)

if TYPE_CHECKING:
    from neverforget.runtime.reflection_values import ReflectionInfo
    from neverforget.runtime.status_values import Finding, LongTermInfo, OwnerInfo, Status
    from neverforget.runtime.store import Store

STATE_COLOURS = {"serving": "green", "recovering": "yellow", "readonly": "yellow"}


def register(app: typer.Typer) -> None:
    command(app, "serve", serve, SERVE_EXAMPLES, THE_STORE)
    command(app, "status", status, STATUS_EXAMPLES, THE_STORE)
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


STATUS_EXAMPLES = """
neverforget status ./memory
neverforget status ./memory --json | jq '.owners[].state'
"""


def status(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Show who hosts the store, who owns its partitions and its memories, and how they are.

    Exit code 1 if not all of them serve.
    """
    with opened(store) as opened_store:
        found = _settled_status(opened_store)
    states = [found.longterm.state, *(owner.state for owner in found.owners)]
    healthy = all(state == "serving" for state in states)
    if as_json:
        totals: dict[str, Any] = {
            "sessions": found.sessions,
            "turns": found.turns,
            "memories": found.memories,
            "log_bytes": found.log_bytes,
        }
        print_json({**msgspec.to_builtins(found), **totals, "healthy": healthy})
    else:
        _print_status(found)
    if not healthy:
        raise typer.Exit(FAILED)


def _settled_status(store: Store) -> Status:
    """The status, once an owner that this very command made has opened what it owns."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = store.status()
        memories = found.longterm
        opening = memories.state == "recovering" or memories.embedder_state == "opening"
        if found.host is not None or not opening or time.monotonic() >= deadline:
            return found
        time.sleep(RETRY_S)


def _print_status(found: Status) -> None:
    out = console()
    host = found.host
    if host is None:
        hosted = "nobody (opened by this command)"
    else:
        hosted = f"pid {host.pid} ({host.role}) since {local(host.started_at)} UTC"
        hosted += f", {host.clients} clients"
        if host.linger_s is not None:
            hosted += f", lingers {host.linger_s:g} s"
    rows = {
        "store": f"{found.path}",
        "id": found.store_id,
        "hosted by": hosted,
        "sessions": f"{found.sessions:,}",
        "turns": f"{found.turns:,}",
        "memories": _memories(found.longterm),
        "log": size(found.log_bytes),
    }
    out.print(pairs("", rows))
    out.print()
    numbers = ("pid", "epoch", "turns", "log", "queue", "restarts", "recovered in")
    table = columns("partition", "state", *numbers, right=numbers)
    for owner in found.owners:
        table.add_row(*_owner_row(owner))
    out.print(table)
    _print_longterm(found.longterm)
    _print_reflection(found.reflection)
    for owner in found.owners:
        if owner.reason:
            out.print(f"partition {owner.partition}: {printable(owner.reason)}", markup=False)
    _print_findings(found.findings)


def _memories(longterm: LongTermInfo) -> str:
    said = [f"{longterm.memories:,}"]
    for count, name in ((longterm.archived, "archived"), (longterm.forgotten, "forgotten")):
        if count:
            said.append(f"{count:,} {name}")
    return ", ".join(said)


def _print_longterm(longterm: LongTermInfo) -> None:
    """How far what is derived from the memories has come."""
    out = console()
    out.print()
    state = Text(longterm.state, STATE_COLOURS.get(longterm.state, "red"))
    out.print(Text.assemble(("long-term owner  ", "bold"), state, f"  pid {longterm.pid}"))
    out.print(pairs("", longterm_rows(longterm)))


def _print_reflection(reflection: ReflectionInfo) -> None:
    from neverforget.runtime.cli_reflect import print_failed, reflection_rows

    out = console()
    out.print()
    out.print(Text.assemble(("reflection  ", "bold"), reflection.state))
    out.print(pairs("", reflection_rows(reflection)))
    print_failed(reflection.failed, reflection.failures)


def longterm_rows(longterm: LongTermInfo) -> dict[str, str]:
    model = longterm.model or longterm.embedder
    dimension = f", {longterm.dimension} dimensions" if longterm.dimension else ""
    rows = {
        "embedder": f"{longterm.embedder} ({longterm.embedder_state})",
        "model": f"{model}{dimension}",
        "vectors": f"{longterm.vectors:,}",
        "to be embedded": f"{longterm.waiting:,}",
        "to be chunked": f"{longterm.chunks_waiting + longterm.chunks_running:,}",
        "log": size(longterm.log_bytes),
        "indexes": f"{size(longterm.derived_bytes)}, generation {longterm.generation}",
    }
    if longterm.published_at is not None:
        rows["indexes"] += f" of {local(longterm.published_at)}"
    optional = {
        "not embeddable": longterm.failed and f"{longterm.failed:,} (found by words only)",
        "not chunkable": longterm.chunks_failed and f"{longterm.chunks_failed:,} (found whole)",
        "words not in yet": longterm.lag and f"{longterm.lag:,}",
        "embedder says": longterm.embedder_error,
        "chunkers say": longterm.chunk_error,
        "because": longterm.reason,
    }
    return rows | {name: said for name, said in optional.items() if said}


def _owner_row(owner: OwnerInfo) -> tuple[str | Text, ...]:
    return (
        str(owner.partition),
        Text(owner.state, STATE_COLOURS.get(owner.state, "red")),
        str(owner.pid),
        str(owner.epoch),
        f"{owner.turns:,}",
        size(owner.log_bytes),
        str(owner.queue),
        str(owner.restarts),
        f"{owner.recovery_s * 1000:,.0f} ms",
    )


VERIFY_EXAMPLES = """
neverforget verify ./memory
neverforget verify ./memory --json || alert
"""


def verify(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Read everything; check every checksum and index.

    Exit code 1 if bytes are lost.
    """
    with opened(store) as opened_store, errors().status("reading every record") as _:
        report = opened_store.verify()
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        verdict = Text("ok", "bold green") if report.ok else Text("damaged", "bold red")
        text = Text.assemble(verdict, f"  {report.records:,} records, {size(report.bytes)} read")
        console().print(text)
        _print_findings(report.findings)
    if not report.ok:
        raise typer.Exit(FAILED)


def _print_findings(findings: tuple[Finding, ...]) -> None:
    if not findings:
        return
    out = console()
    out.print()
    table = columns("severity", "partition", "what", "where", "bytes", right=("bytes",))
    for found in findings:
        table.add_row(
            Text(found.severity, "red" if found.severity == "error" else "yellow"),
            "memories" if found.partition is None else str(found.partition),
            printable(f"{found.kind}: {found.message}"),
            f"{printable(found.file)} +{found.offset}",
            f"{found.bytes:,}",
        )
    out.print(table)


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
