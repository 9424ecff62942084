"""Commands that move whole conversations: import, export, backup."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from neverforget.runtime.cli_render import console, errors, pairs, print_json, progress_bar, size
from neverforget.runtime.cli_store import (
    FAILED,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
    store_exists,
    store_path,
)

PROBLEMS_SHOWN = 20


def register(app: typer.Typer) -> None:
    command(app, "import", import_, IMPORT_EXAMPLES)
    command(app, "export", export, EXPORT_EXAMPLES)
    command(app, "backup", backup, BACKUP_EXAMPLES)


IMPORT_EXAMPLES = """
neverforget import ./memory conversations.json      (a ChatGPT data export, also as its zip)
neverforget import ./memory turns.jsonl -N acme
zcat turns.jsonl.gz | neverforget import ./memory - --format jsonl
neverforget import ./memory turns.jsonl --dry-run
"""


def import_(
    store: StoreArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help='What to read; "-": standard input.')],
    format: Annotated[str, typer.Option(help="auto, jsonl, openai, chatgpt or locomo.")] = "auto",
    namespace: NamespaceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count, append nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Append the conversations in a file, each turn once however often it runs.

    Reads lines of turns (as export writes them), OpenAI-style message lists, ChatGPT data exports
    and LoCoMo. What cannot be read is reported with its line, the rest is imported, and the exit
    code is 1.
    """
    from neverforget.runtime.importers import load

    where = tuple(namespace or ())
    arguments: dict[str, Any] = {"format": format, "namespace": where, "dry_run": dry_run}
    with progress_bar("importing", in_bytes=True, quiet=as_json) as update:
        if dry_run and not store_exists(store_path(store)):
            report = load(None, file, progress=update, **arguments)
        else:
            with opened(store, create=not dry_run) as opened_store:
                report = load(opened_store, file, progress=update, **arguments)
    if as_json:
        print_json({**msgspec.to_builtins(report), "ok": report.ok})
    elif not (report.turns or report.contentless or report.problem_count):
        errors().print(f"{file}: nothing in it", markup=False)
    else:
        rows = {
            "format": report.format,
            "sessions": f"{report.sessions:,}",
            "turns read": f"{report.turns:,}",
            "would append" if dry_run else "appended": f"{report.appended:,}",
            "there already": f"{report.existing:,}",
        }
        if report.contentless:
            rows["without content"] = f"{report.contentless:,} (erased before they were exported)"
        if report.refused:
            rows["refused"] = f"{report.refused:,}"
        if report.problem_count:
            rows["problems"] = f"{report.problem_count:,}"
        console().print(pairs("", rows))
        out = errors()
        for problem in report.problems[:PROBLEMS_SHOWN]:
            out.print(str(problem), markup=False, style="yellow")
        if report.problem_count > PROBLEMS_SHOWN:
            left = report.problem_count - PROBLEMS_SHOWN
            out.print(f"… and {left:,} more; --json lists the first 1,000", markup=False)
    if not report.ok:
        raise typer.Exit(FAILED)


EXPORT_EXAMPLES = """
neverforget export ./memory -o memory.jsonl.gz
neverforget export ./memory --prefix dm/ | jq -r .content
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Report as JSON (with -o FILE; the turns always are).")
    ] = False,
) -> None:
    """Write every turn as a line of JSON, which import reads back equal.

    A file appears under its name only when it is complete.
    """
    from neverforget.runtime.exporter import export_file, export_sessions, sessions_to_export

    with opened(store) as opened_store:
        sessions = sessions_to_export(
            opened_store, namespace=tuple(namespace) if namespace else None, prefix=prefix
        )
        if output == "-":
            export_sessions(opened_store, sessions, sys.stdout.buffer.write)
            sys.stdout.buffer.flush()
            return
        whole = not namespace and prefix is None
        total = opened_store.status().turns if whole else None
        with (
            progress_bar("exporting", in_bytes=False, quiet=as_json) as update,
            export_file(Path(output)) as write,
        ):
            report = export_sessions(
                opened_store, sessions, write, progress=lambda done: update(done, total)
            )
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    rows = {"sessions": f"{report.sessions:,}", "turns": f"{report.turns:,}"}
    if report.contentless:
        rows["without content"] = f"{report.contentless:,} (erased or unreadable)"
    rows["written"] = f"{output} ({size(Path(output).stat().st_size)})"
    console().print(pairs("", rows))


BACKUP_EXAMPLES = """
neverforget backup ./memory ./backups/2026-11-30
neverforget status ./backups/2026-11-30          (a backup is a store)
"""


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
