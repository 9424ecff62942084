"""Commands about long memories and their parts: chunks."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.text import Text

from neverforget.runtime.cli_memory_options import FullOption
from neverforget.runtime.cli_memory_render import QUIET, indented
from neverforget.runtime.cli_render import (
    console,
    errors,
    pairs,
    print_json,
    print_problems,
    printable,
    progress_bar,
    write_stdout,
)
from neverforget.runtime.cli_store import (
    FAILED,
    MEMORIES,
    MOVING,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
    store_exists,
    store_path,
)
from neverforget.runtime.cli_words import excerpt
from neverforget.runtime.memory_json import memory_line


def register(app: typer.Typer) -> None:
    command(app, "chunks", chunks, CHUNKS_EXAMPLES, MEMORIES)
    command(app, "migrate-chunked", migrate_chunked, MIGRATE_EXAMPLES, MOVING)


CHUNKS_EXAMPLES = """
neverforget chunks ./memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
neverforget chunks ./memory 0199a8f3-… --json | jq -r '[.start, .stop, .context] | @tsv'
"""


def chunks(
    store: StoreArgument,
    memory_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a long memory, or of a part of it.")
    ],
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a long memory was cut into, so that its parts are found by themselves.

    The memory itself is never changed; joined, the chunks are its text. Each is shown with the
    characters that it covers and the headings that it stands under; --json writes a line for each.
    """
    with opened(store) as opened_store:
        original = opened_store.original(memory_id)
        found = opened_store.chunks(original.id)
        over = opened_store.config.chunk_over_characters
    out, start = console(), 0
    for number, chunk in enumerate(found, 1):
        stop = start + len(chunk.text)
        if as_json:
            write_stdout(memory_line(chunk, extra={"start": start, "stop": stop}))
        else:
            head = Text(f"{number:>3}  ", QUIET)
            head.append(f"characters {start:,} to {stop:,}", "bold cyan")
            if chunk.context:
                head.append(f"  {printable(chunk.context)}", "green")
            body = [Text(excerpt(chunk.text, full=full)), Text(chunk.id, QUIET)]
            out.print(indented(head, body, wrap=out.is_terminal))
        start = stop
    if not found:
        length = len(original.text)
        why = (
            "it is not chunked yet (a host does it in the background)"
            if length > over
            else f"it has {length:,} characters; memories of more than {over:,} are chunked"
        )
        errors().print(f"no chunks: {why}", style="bright_black", markup=False)


MIGRATE_EXAMPLES = """
neverforget migrate-chunked ./memory old-memories.json --dry-run
neverforget migrate-chunked ./memory old-memories.jsonl -N acme
"""


def migrate_chunked(
    store: StoreArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help='What to read; "-": standard input.')],
    namespace: NamespaceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and judge, remember nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring back originals that another system replaced by a summary with chunks below it.

    Reads memories as JSON: containers, whose text is a summary, and chunks, which name them
    (parent_id) and say what they cover (start and end, or chunk_index). Where the chunks are
    certain to be the whole text, that becomes the memory, and the summary stands in its metadata.
    Where they are not, everything is kept as it is, with the tag needs-review and the reason in
    the metadata, and the exit code is 1. All other memories are remembered as they stand. The id
    of each becomes its key, so that a second run changes nothing.
    """
    from neverforget.runtime.importers.migrating import migrate

    where = tuple(namespace or ())
    with progress_bar("migrating", in_bytes=True, quiet=as_json) as update:
        if dry_run and not store_exists(store_path(store)):
            report = migrate(None, file, namespace=where, dry_run=True, progress=update)
        else:
            with opened(store, create=not dry_run) as opened_store:
                report = migrate(
                    opened_store, file, namespace=where, dry_run=dry_run, progress=update
                )
    if as_json:
        print_json({**msgspec.to_builtins(report), "ok": report.ok})
    elif not report.records and not report.problem_count:
        errors().print(f"{file}: nothing in it", markup=False)
    else:
        rows = {
            "records read": f"{report.records:,}",
            "originals restored": f"{report.restored:,}, from {report.chunks:,} chunks",
            "to be reviewed": f"{report.flagged:,}",
            "others": f"{report.plain:,}",
            "would remember" if report.dry_run else "remembered": f"{report.remembered:,}",
            "known already": f"{report.existing:,}",
        }
        optional = {
            "revised": report.revised,
            "refused": report.refused,
            "forgotten here": report.gone,
        }
        rows |= {name: f"{count:,}" for name, count in optional.items() if count}
        console().print(pairs("", rows))
        print_problems(report.problems, report.problem_count)
    if not report.ok:
        raise typer.Exit(FAILED)
