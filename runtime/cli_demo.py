"""The demo as a command."""

from __future__ import annotations

import io
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated

import typer

from neverforget.runtime.cli_render import console, errors, print_json, printable
from neverforget.runtime.cli_store import FAILED, THE_STORE, JsonOption, command


def register(app: typer.Typer) -> None:
    command(app, "demo", demo, DEMO_EXAMPLES, THE_STORE)


DEMO_EXAMPLES = """
neverforget demo
neverforget demo conversations.json --agents 8 --seconds 20
neverforget demo --store ./demo-store      (kept afterwards, to look at)
"""


def demo(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="What the agents say: any file that import reads.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="Where the store is made, and kept. Else temporary."
        ),
    ] = None,
    agents: Annotated[int, typer.Option(min=1, max=64, help="How many agents.")] = 6,
    seconds: Annotated[float, typer.Option(min=2, max=3600, help="How long they talk.")] = 8.0,
    as_json: JsonOption = False,
) -> None:
    """Watch a fleet of agents talk, lose processes to kill -9, lose nothing, and remember.

    Starts a store with a Ray of its own, lets agents append and page at the same time, kills the
    owner of a partition, and compares everything that was acknowledged with what is on the disk.
    What was said is made into memories while the agents talk; the owner of the memories is killed
    in the middle of that. Then everything is opened anew: questions are answered, each with the
    turns behind the answer; an agent gets a context for its next prompt within a budget; and one
    memory is forgotten, which takes a confirmation, and brought back. Of a file of more than 500
    turns, one conversation is made into memories. Exit code 1 if anything is not as it is told.
    """
    from neverforget.runtime.demo.outcome_json import outcome_json
    from neverforget.runtime.demo.running import run_demo
    from neverforget.runtime.demo.showing import Screen, Silence

    # As SIGINT does: the temporary store is removed, and Ray is stopped, on the way out.
    signal.signal(signal.SIGTERM, _leave)
    screen = Screen(console())
    audience = Silence() if as_json else screen
    with _quiet() as remarks:
        outcome = run_demo(file, audience, folder=store, agents=agents, seconds=seconds)
    if as_json:
        print_json(outcome_json(outcome))
    else:
        screen.result(outcome, kept=store is not None)
    if not outcome.ok:
        errors().print(printable(remarks.getvalue()), markup=False, style="bright_black")
        raise typer.Exit(FAILED)


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Ray remarks on standard output that a worker has died, and the host logs that it is back:
    both are the point of the demo, which tells them itself. Gives what was said."""
    remarks = io.StringIO()
    handler = logging.StreamHandler(remarks)
    log = logging.getLogger("neverforget")
    log.addHandler(handler)
    try:
        with redirect_stdout(remarks):
            yield remarks
    finally:
        log.removeHandler(handler)
