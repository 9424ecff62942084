"""The command that shows how a store stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from neverforget.runtime.cli_owners import last_errors, owners_table, state_text
from neverforget.runtime.cli_reflect import print_failed, reflection_rows
from neverforget.runtime.cli_render import (
    columns,
    console,
    local,
    pairs,
    print_json,
    printable,
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
)
from neverforget.runtime.cli_watch import check, watch
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console

    from neverforget.runtime.reflection_values import ReflectionInfo
    from neverforget.runtime.status_values import Finding, LongTermInfo, Status
    from neverforget.runtime.store import Store


def register(app: typer.Typer) -> None:
    command(app, "status", status, STATUS_EXAMPLES, THE_STORE)


STATUS_EXAMPLES = """
neverforget status ./memory
neverforget status ./memory --json | jq '.owners[].state'
neverforget status ./memory --watch
neverforget status ray:memory --check --timeout 5
"""


def status(
    store: StoreArgument,
    watched: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Between two looks.")
    ] = 2.0,
    looks: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Look so many times, then end.")
    ] = None,
    checked: Annotated[
        bool, typer.Option("--check", help="Only say whether all serve, for a probe.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="For the answers of a --check.")
    ] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Show who hosts the store, who owns its partitions and its memories, and how they are.

    Exit code 1 if not all of them serve.

    With --check or --watch the store is never opened here: where nobody hosts it, --check ends with
    exit code 4, and --watch waits for a host.
    """
    if checked and watched:
        raise InvalidArgument("--check looks once, --watch again and again; leave one of them out")
    if checked:
        check(store, timeout, as_json)
        return
    if watched:
        watch(store, every, looks, as_json)
        return
    with opened(store) as opened_store:
        found = _settled_status(opened_store)
    if as_json:
        totals: dict[str, Any] = {
            "sessions": found.sessions,
            "turns": found.turns,
            "memories": found.memories,
            "log_bytes": found.log_bytes,
            "healthy": found.healthy,
            "problems": list(found.problems),
        }
        print_json({**msgspec.to_builtins(found), **totals})
    else:
        _print_status(found)
    if not found.healthy:
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


def _console() -> Console:
    out = console()
    if not out.is_terminal:
        out.width = 1000  # lines are as long as they are
    return out


def _print_status(found: Status) -> None:
    out = _console()
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
    if host is not None and host.metrics_port is not None:
        rows["metrics"] = f"port {host.metrics_port} of that node, /metrics"
    out.print(pairs("", rows))
    out.print()
    out.print(owners_table(found, out.width))
    _print_longterm(found.longterm)
    _print_reflection(found.reflection)
    _print_replica(found)
    for owner in found.owners:
        if owner.reason:
            out.print(f"partition {owner.partition}: {printable(owner.reason)}", markup=False)
    failed = last_errors(found)
    if failed is not None:
        out.print()
        out.print(failed)
    print_findings(found.findings)


def _print_replica(found: Status) -> None:
    """How far each log is shipped, where they are."""
    logs = {f"partition {owner.partition}": owner.replica for owner in found.owners}
    logs["memories"] = found.longterm.replica
    shipped = {name: replica for name, replica in logs.items() if replica is not None}
    if not shipped:
        return
    out = _console()
    out.print()
    numbers = ("objects", "shipped", "behind", "for")
    table = columns("replica", "state", *numbers, "place", right=numbers)
    for name, replica in shipped.items():
        said = replica.state if replica.error is None else f"{replica.state}: {replica.error}"
        table.add_row(
            name,
            printable(said),
            f"{replica.objects:,}",
            size(replica.shipped_bytes),
            size(replica.lag_bytes),
            f"{replica.lag_s:,.1f} s",
            printable(replica.place),
        )
    out.print(table)


def _memories(longterm: LongTermInfo) -> str:
    said = [f"{longterm.memories:,}"]
    for count, name in ((longterm.archived, "archived"), (longterm.forgotten, "forgotten")):
        if count:
            said.append(f"{count:,} {name}")
    return ", ".join(said)


def _print_longterm(longterm: LongTermInfo) -> None:
    """How far what is derived from the memories has come."""
    out = _console()
    out.print()
    state = state_text(longterm.state)
    out.print(Text.assemble(("memories  ", "bold"), state, f"  pid {longterm.pid}"))
    out.print(pairs("", longterm_rows(longterm)))


def _print_reflection(reflection: ReflectionInfo) -> None:
    out = _console()
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


def print_findings(findings: tuple[Finding, ...]) -> None:
    """A table of them, where there are any."""
    if not findings:
        return
    out = _console()
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
