"""Commands that move conversations and memories as a whole: import, export, backup."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from neverforget.runtime.cli_memory_render import remarks_of
from neverforget.runtime.cli_render import (
    columns,
    console,
    errors,
    local,
    pairs,
    print_json,
    print_problems,
    printable,
    progress_bar,
    size,
)
from neverforget.runtime.cli_store import (
    FAILED,
    MOVING,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
    store_exists,
    store_path,
)
from neverforget.runtime.exporter import (
    ExportReport,
    export_file,
    export_memories,
    export_sessions,
    sessions_to_export,
)
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.importers import ImportReport
    from neverforget.runtime.store import Store

PARTS = ("turns", "memories")


def register(app: typer.Typer) -> None:
    command(app, "import", import_, IMPORT_EXAMPLES, MOVING)
    command(app, "export", export, EXPORT_EXAMPLES, MOVING)
    command(app, "backup", backup, BACKUP_EXAMPLES, MOVING)
    command(app, "backups", backups, BACKUPS_EXAMPLES, MOVING)


IMPORT_EXAMPLES = """
neverforget import ./memory conversations.json      (a ChatGPT data export, also as its zip)
neverforget import ./memory turns.jsonl -N acme
neverforget import ./memory mem0.json               (what mem0's get_all answered)
zcat turns.jsonl.gz | neverforget import ./memory - --format jsonl
neverforget import ./memory turns.jsonl --dry-run
"""


def import_(
    store: StoreArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help='What to read; "-": standard input.')],
    format: Annotated[
        str, typer.Option(help="auto, jsonl, openai, chatgpt, mem0 or locomo.")
    ] = "auto",
    namespace: NamespaceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count, append nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Append the conversations and remember the memories in a file, each once however often it
    runs.

    Reads lines of turns and memories (as export writes them), OpenAI-style message lists, ChatGPT
    data exports, mem0 exports and LoCoMo. What cannot be read is reported with its line, the rest
    is imported, and the exit code is 1. What was forgotten or erased here is not brought back.

    A memory of mem0 keeps its id as its key; user_id becomes the namespace ("user", user_id),
    agent_id the agent, created_at occurred_at, categories tags; the rest stands in its metadata.
    """
    from neverforget.runtime.importers import load

    where = tuple(namespace or ())
    arguments: dict[str, Any] = {"format": format, "namespace": where, "dry_run": dry_run}
    remarks: list[str] = []
    with progress_bar("importing", in_bytes=True, quiet=as_json) as update:
        if dry_run and not store_exists(store_path(store)):
            report = load(None, file, progress=update, **arguments)
        else:
            with opened(store, create=not dry_run) as opened_store:
                report = load(opened_store, file, progress=update, **arguments)
                if report.remembered and not dry_run:
                    remarks = remarks_of(opened_store.status().longterm)
    if as_json:
        print_json({**msgspec.to_builtins(report), "ok": report.ok})
    elif not (report.turns or report.memories or report.contentless or report.problem_count):
        errors().print(f"{file}: nothing in it", markup=False)
    else:
        console().print(pairs("", _import_rows(report)))
        out = errors()
        for remark in remarks:
            out.print(remark, style="bright_black", markup=False)
        print_problems(report.problems, report.problem_count)
    if not report.ok:
        raise typer.Exit(FAILED)


def _import_rows(report: ImportReport) -> dict[str, str]:
    rows = {"format": report.format}
    if report.turns or not report.memories:
        rows["sessions"] = f"{report.sessions:,}"
        rows["turns read"] = f"{report.turns:,}"
        rows["would append" if report.dry_run else "appended"] = f"{report.appended:,}"
        rows["there already"] = f"{report.existing:,}"
    if report.contentless:
        rows["without content"] = f"{report.contentless:,} (erased before they were exported)"
    if report.refused:
        rows["refused"] = f"{report.refused:,}"
    if report.memories:
        rows["memories read"] = f"{report.memories:,}"
        rows["would remember" if report.dry_run else "remembered"] = f"{report.remembered:,}"
        if report.revised:
            rows["revised"] = f"{report.revised:,}"
        rows["known already"] = f"{report.memories_existing:,}"
        if report.memories_refused:
            rows["memories refused"] = f"{report.memories_refused:,}"
    if report.problem_count:
        rows["problems"] = f"{report.problem_count:,}"
    return rows


EXPORT_EXAMPLES = """
neverforget export ./memory -o memory.jsonl.gz
neverforget export ./memory --prefix dm/ | jq -r .content
neverforget export ./memory --only memories | jq -r .text
neverforget export ./old -o all.jsonl && neverforget import ./new all.jsonl
"""


def export(
    store: StoreArgument,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help='Where to; "-" is standard output.'),
    ] = "-",
    namespace: NamespaceOption = None,
    prefix: Annotated[
        str | None, typer.Option(help="Only sessions whose names begin with this.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="turns, or memories.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Report as JSON (with -o FILE; the lines always are).")
    ] = False,
) -> None:
    """Write every turn and every memory as a line of JSON, which import reads back equal.

    A file appears under its name only when it is complete. Lines of memories say "kind": "memory".

    Kept of a turn: its place, role, content, names, key, metadata, time and state. Kept of a
    memory: id, key, namespace, text and all that was said with it, its earlier versions, its
    relations, and whether it is archived. Not kept: what was forgotten, the audit, who wrote each
    version and when (created_at becomes occurred_at where there is none). Backup copies everything.
    """
    if only not in (None, *PARTS):
        raise InvalidArgument(f"--only is {only!r}; give {' or '.join(PARTS)}")
    if prefix is not None and only == "memories":
        raise InvalidArgument("--prefix is about sessions; leave it out to export memories")
    turns, memories = only != "memories", only != "turns" and prefix is None
    where = tuple(namespace) if namespace else None
    with opened(store) as opened_store:
        if output == "-":
            _write(opened_store, sys.stdout.buffer.write, where, prefix, turns, memories)
            sys.stdout.buffer.flush()
            return
        total = None
        if where is None and prefix is None:
            status = opened_store.status()
            total = status.turns if turns else 0
            if memories:
                total += status.longterm.memories + status.longterm.archived
        with (
            progress_bar("exporting", in_bytes=False, quiet=as_json) as update,
            export_file(Path(output)) as write,
        ):
            report = _write(
                opened_store,
                write,
                where,
                prefix,
                turns,
                memories,
                progress=lambda done: update(done, total),
            )
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    rows = {}
    if turns:
        rows = {"sessions": f"{report.sessions:,}", "turns": f"{report.turns:,}"}
    if report.contentless:
        rows["without content"] = f"{report.contentless:,} (erased or unreadable)"
    if memories:
        rows["memories"] = f"{report.memories:,}"
    if report.memories_unreadable:
        rows["left out"] = f"{report.memories_unreadable:,} memories that are damaged on disk"
    rows["written"] = f"{output} ({size(Path(output).stat().st_size)})"
    console().print(pairs("", rows))
    if report.memories_unreadable:
        raise typer.Exit(FAILED)


def _write(
    store: Store,
    write: Callable[[bytes], object],
    where: tuple[str, ...] | None,
    prefix: str | None,
    turns: bool,
    memories: bool,
    progress: Callable[[int], None] = lambda done: None,
) -> ExportReport:
    """Turns first: relations of memories name them."""
    first = second = ExportReport()
    if turns:
        sessions = sessions_to_export(store, namespace=where, prefix=prefix)
        first = export_sessions(store, sessions, write, progress=progress)
    if memories:
        second = export_memories(
            store, write, namespace=where, progress=lambda done: progress(first.turns + done)
        )
    return msgspec.structs.replace(
        first,
        bytes=first.bytes + second.bytes,
        memories=second.memories,
        memories_unreadable=second.memories_unreadable,
    )


BACKUP_EXAMPLES = """
neverforget backup ./memory ./backups/2026-11-30
neverforget verify ./backups/2026-11-30          (reads all of it, and writes nothing)
neverforget backup ray:memory ./backups/memory   (of a deployed store, gathered here)
"""


BACKUPS_EXAMPLES = """
neverforget backups ./backups
neverforget backups ./backups --json | jq -r .[-1].path
"""


def backups(
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="Holds backups, or is one.")
    ],
    as_json: JsonOption = False,
) -> None:
    """List the complete backups in a directory, the newest last."""
    from neverforget.runtime.backups import backups as list_backups

    found = list_backups(directory)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    table = columns("backup", "of", "store", "partitions", "size", right=("partitions",))
    for info in found:
        opened_since = "  opened since" if info.opened else ""
        at = local(info.at, seconds=True)
        table.add_row(
            printable(info.path), at, info.store_id, str(info.partitions),
            size(info.bytes) + opened_since,
        )  # fmt: skip
    console().print(table)


def backup(
    store: StoreArgument,
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="New directory for the copy.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Copy the store, as it is durable now, while it goes on working."""
    with (
        opened(store) as opened_store,
        progress_bar("copying partitions", in_bytes=False, quiet=as_json) as update,
    ):
        opened_store.backup(Path(directory), progress=update)
        total = sum(f.stat().st_size for f in Path(directory).rglob("*") if f.is_file())
    if as_json:
        print_json({"directory": directory, "bytes": total})
    else:
        console().print(f"{directory}: {size(total)}", markup=False)
