"""The demo as a command."""

from __future__ import annotations

from typing import Annotated

import typer

from neverforget.runtime.cli_render import console, print_json
from neverforget.runtime.cli_store import FAILED, JsonOption, command


def register(app: typer.Typer) -> None:
    command(app, "demo", demo, DEMO_EXAMPLES)


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
    """Watch a fleet of agents talk, lose a process to kill -9, and lose nothing.

    Starts a store with a Ray of its own, lets agents append and page at the same time, kills the
    owner of a partition, and compares everything that was acknowledged with what is on the disk.
    Exit code 1 if that fails.
    """
    from neverforget.runtime.demo.running import run_demo
    from neverforget.runtime.demo.showing import Screen, Silence, outcome_json

    if as_json:
        outcome = run_demo(file, Silence(), folder=store, agents=agents, seconds=seconds)
        print_json(outcome_json(outcome))
    else:
        screen = Screen(console())
        outcome = run_demo(file, screen, folder=store, agents=agents, seconds=seconds)
        screen.result(outcome, kept=store is not None)
    if not outcome.ok:
        raise typer.Exit(FAILED)
