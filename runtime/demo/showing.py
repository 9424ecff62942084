"""How the demo looks: steps with a tick and their time, bars for what takes long, the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from neverforget.runtime.cli_render import columns, printable
from neverforget.runtime.demo.killing import Kill, MemoryKill
from neverforget.runtime.demo.outcome import Outcome
from neverforget.runtime.demo.outcome_json import latencies
from neverforget.runtime.demo.reflecting import Reflected
from neverforget.runtime.demo.showing_memories import (
    show_deletion,
    show_learned,
    show_mind,
    show_who,
)
from neverforget.runtime.working_values import counted

BAR_WIDTH = 36
FAULTS_SHOWN = 10


class Screen:
    """An audience that is a person at a terminal, or a log file: then without what moves."""

    def __init__(self, console: Console) -> None:
        self._out = console
        self._live: Live | None = None
        self._reflecting_since = 0.0

    def begins(self, outcome: Outcome, seconds: float) -> None:
        said = f"{counted(outcome.conversations, 'conversation')}, {outcome.lines:,} turns"
        self._out.print(Rule(Text("neverforget demo", "bold"), align="left", style="bright_black"))
        for line in (
            f"{outcome.agents} agents (ada, bruno, …) say {said}, over and over for {seconds:g} s;",
            "each turn is on the disk before they go on. What is said becomes memories.",
            "Two processes are killed with SIGKILL: an owner of turns while the agents talk,",
            "the owner of the memories while they are made. Then, weeks later, somebody asks.",
        ):
            self._out.print(line)
        if not outcome.reflected.everything:
            only = "The file is long: memories are made of one conversation in it."
            self._out.print(only, style="yellow")
        if outcome.cut:
            self._out.print("The file is longer: this is its beginning.", style="yellow")
        self._out.print()

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        began = time.monotonic()
        if self._out.is_terminal:
            with self._moving(Spinner("dots", doing)):
                yield
        else:
            yield
        self._tick(done, time.monotonic() - began)

    def talking(self, elapsed_s: float, seconds: float, turns: int) -> None:
        elapsed_s = min(elapsed_s, seconds)
        self._bar(elapsed_s, seconds, f"{elapsed_s:4.1f} s", f"{turns:,} turns acknowledged")

    def _bar(self, done: float, of: float, numbers: str, what: str) -> None:
        if not self._out.is_terminal:
            return
        live = self._live
        if live is None:
            live = self._live = self._moving(Text())
            live.start()
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(of, done, width=BAR_WIDTH)
        row.add_row(Text("▸", "cyan"), bar, numbers, Text(what, "bold"))
        live.update(row, refresh=True)

    def _bar_ends(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _moving(self, what: RenderableType) -> Live:
        return Live(
            what, console=self._out, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def killed(self, kill: Kill) -> None:
        self._line(
            "✗",
            "red",
            f"kill -9 {kill.pid}, owner of partition {kill.partition} with {kill.turns:,} turns",
            kill.after_s,
        )

    def came_back(self, kill: Kill) -> None:
        self._bar_ends()
        if kill.owner is None or kill.back_in_s is None:
            return
        self._tick(
            f"partition {kill.partition} lives on in process {kill.owner.pid}, "
            f"epoch {kill.owner.epoch}, recovered in {kill.owner.recovery_s * 1000:,.0f} ms",
            None,
        )
        answered = Text("  ✓ ", "green")
        answered.append("first acknowledged turn after the kill: ")
        answered.append(f"{kill.back_in_s:.2f} s", "bold")
        self._out.print(answered)

    # ---- reflection -----------------------------------------------------------------------------

    def reflects(self, found: Reflected) -> None:
        self._reflecting_since = time.monotonic()
        if found.by_itself:
            self._tick(f"{found.by_itself:,} memories were made while the agents talked", None)

    def reflecting(self, done: int, all_turns: int) -> None:
        self._bar(done, max(all_turns, 1), f"{done:,} of {all_turns:,}", "turns reflected")

    def killed_memories(self, kill: MemoryKill) -> None:
        when = f"with {kill.done:,} of {kill.all:,} turns reflected" if kill.all else "at the end"
        self._line("✗", "red", f"kill -9 {kill.pid}, owner of the memories, {when}", None)

    def reflected(self, found: Reflected) -> None:
        self._bar_ends()
        if found.kill is not None and found.kill.owner is not None:
            owner = found.kill.owner
            self._tick(f"the memories live on in process {owner.pid}, epoch {owner.epoch}", None)
        made = f"{found.made:,} memories made of {found.turns:,} turns"
        self._tick(
            f"{made}; what was only repeated made none", time.monotonic() - self._reflecting_since
        )

    def _tick(self, what: str, seconds: float | None) -> None:
        self._line("✓", "green", what, seconds)

    def _line(self, mark: str, colour: str, what: str, seconds: float | None) -> None:
        text = Text(f"  {mark} ", colour)
        text.append(printable(what), "default" if mark == "✓" else "bold")
        if seconds is not None:
            text.append(f"  {seconds:.1f} s", "bright_black")
        self._out.print(text)

    # ---- the end --------------------------------------------------------------------------------

    def result(self, outcome: Outcome, *, kept: bool) -> None:
        self._out.print()
        self._out.print(_latencies(outcome))
        if outcome.talked_s:
            rate = outcome.verdict.acknowledged / outcome.talked_s
            text = f"{rate:,.0f} turns a second, each on the disk before it was acknowledged"
            self._out.print(Text(text, "bright_black"))
        self._out.print()
        show_learned(self._out, outcome.learned)
        show_mind(self._out, outcome.mind)
        show_who(self._out, outcome.who)
        show_deletion(self._out, outcome.learned)
        self._verdict(outcome)
        if kept:
            self._out.print()
            self._out.print(
                f"The store is kept: neverforget sessions {outcome.folder}", markup=False
            )

    def _verdict(self, outcome: Outcome) -> None:
        verdict = outcome.verdict
        if verdict.ok:
            self._fact(
                True,
                f"{verdict.acknowledged:,} acknowledged turns: each is there, once, in its place, "
                "as it was said",
            )
            self._fact(True, f"{verdict.sessions:,} sessions without a gap, in each agent's order")
        else:
            self._fact(False, f"{len(verdict.faults):,} faults in {verdict.acknowledged:,} turns")
            for fault in verdict.faults[:FAULTS_SHOWN]:
                self._out.print(f"      {printable(fault)}", markup=False)
        if verdict.unacknowledged:
            self._fact(
                True,
                f"{verdict.unacknowledged:,} more are there from before, or had their answer lost",
            )
        if not outcome.faults:
            kept = f"{outcome.learned.kept:,} memories"
            self._fact(True, f"{kept}: none lost, none twice, each with the turns it was made from")
            if outcome.mind.context is not None:
                tokens = f"{outcome.mind.context.tokens:,} of {outcome.mind.context.max_tokens:,}"
                self._fact(True, f"the context keeps its budget: {tokens} tokens")
        for fault in outcome.faults[:FAULTS_SHOWN]:
            self._fact(False, fault)
        if outcome.verified is not None:
            records = f"{outcome.verified.records:,} records"
            self._fact(outcome.verified.ok, f"every checksum holds: {records} read from the disk")
        failures = [failure for each in outcome.notes for failure in each.failures]
        if failures:
            self._fact(False, f"{len(failures):,} calls were given up; the first: {failures[0]}")
        self._out.print()
        if outcome.ok:
            self._out.print(Text("nothing was lost.", "bold green"))
        else:
            self._out.print(Text("the check failed.", "bold red"))

    def _fact(self, good: bool, what: str) -> None:
        text = Text("  ✓ " if good else "  ✗ ", "green" if good else "red")
        text.append(printable(what))
        self._out.print(text)


def _latencies(outcome: Outcome) -> Table:
    table = columns("", "calls", "p50", "p99", "longest", right=("calls", "p50", "p99", "longest"))
    for name, row in latencies(outcome).items():
        if row["calls"]:
            table.add_row(
                name, f"{row['calls']:,}", *(_ms(row[each]) for each in ("p50_s", "p99_s", "max_s"))
            )
    return table


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.2f} ms" if seconds < 1 else f"{seconds:,.2f} s"


class Silence:
    """An audience that only waits for the outcome."""

    def begins(self, outcome: Outcome, seconds: float) -> None: ...

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        yield

    def talking(self, elapsed_s: float, seconds: float, turns: int) -> None: ...

    def killed(self, kill: Kill) -> None: ...

    def came_back(self, kill: Kill) -> None: ...

    def reflects(self, found: Reflected) -> None: ...

    def reflecting(self, done: int, all_turns: int) -> None: ...

    def killed_memories(self, kill: MemoryKill) -> None: ...

    def reflected(self, found: Reflected) -> None: ...
