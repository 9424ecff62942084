"""The command line: ``neverforget COMMAND STORE …``.

Exit codes: 0 done, 1 findings or failure, 2 usage, 3 not found, 4 locked or unavailable, 5
confirmation required, 130 interrupted, 141 (as SIGPIPE's) when whoever read the output went away.
Data goes to standard output, everything else to standard
error; errors are one sentence with the remedy. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer

from neverforget.runtime import (
    cli_agents,
    cli_audit,
    cli_chunks,
    cli_context,
    cli_conversation,
    cli_demo,
    cli_deploy,
    cli_forgetting,
    cli_memory,
    cli_memory_changes,
    cli_operation,
    cli_recall,
    cli_reflect,
    cli_replica,
    cli_salvage,
    cli_status,
    cli_transfer,
)
from neverforget.runtime.cli_render import ReaderGone, errors, printable
from neverforget.runtime.cli_store import FAILED, INTERRUPTED, READER_GONE, exit_code
from neverforget.storage.errors import NeverforgetError

TRACEBACK = "--traceback"

SETTINGS: dict[str, Any] = {
    "name": "neverforget",
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(**SETTINGS)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("neverforget"))
        raise typer.Exit


@app.callback()
def options(
    traceback: Annotated[
        bool, typer.Option(TRACEBACK, help="Show where an error came from, for a bug report.")
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Durable memory for fleets of AI agents: conversations that survive whatever their process
    does not, and what was learned from them, recalled by meaning, words and time.

    STORE is a directory, or ray:NAME for a store that was deployed on a Ray
    cluster. Every command but [bold]serve[/] and [bold]demo[/] attaches to the process that
    hosts it, or opens it by itself where nobody does.
    """


COMMANDS = (
    cli_operation,
    cli_status,
    cli_agents,
    cli_conversation,
    cli_memory,
    cli_recall,
    cli_reflect,
    cli_replica,
    cli_salvage,
    cli_memory_changes,
    cli_chunks,
    cli_context,
    cli_forgetting,
    cli_audit,
    cli_transfer,
    cli_demo,
    cli_deploy,
)
for module in COMMANDS:
    module.register(app)


def _called(arguments: Sequence[str]) -> typer.Typer:
    """With no other command than the one that is called: making all of them takes 0.15 s."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    found = [each for each in app.registered_commands if each.name == name]
    if not found:
        return app
    one = typer.Typer(**SETTINGS)
    one.callback()(options)
    one.registered_commands = found
    return one


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    try:
        typer.main.get_command(_called(arguments)).main(list(arguments), prog_name="neverforget")
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 0 if leave.code is None else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except ReaderGone:
        # What is still buffered goes nowhere, or Python would complain on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except Exception as error:
        if TRACEBACK in arguments:
            raise
        return _report(error)
    return 0


def _report(error: Exception) -> int:
    if isinstance(error, NeverforgetError):
        text, code = str(error), exit_code(error)
    elif isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        text, code = f"{error.strerror}{named}", FAILED
    else:
        text = (
            f"{type(error).__name__}: {error} (a fault of neverforget's; "
            f"`neverforget {TRACEBACK} …` shows where, please report it)"
        )
        code = FAILED
    console = errors()
    console.print("[bold red]error:[/]", end=" ")
    console.print(printable(text), markup=False)
    for note in getattr(error, "__notes__", ()):
        console.print(printable(note), markup=False, style="bright_black")
    return code


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that is not UTF-8 gets escapes
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
