"""How the demo looks: steps with a tick and their time, a bar while the fleet talks, tables, a tail
to read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from neverforget.runtime.cli_render import columns, place, printable, turn_view
from neverforget.runtime.demo.running import Kill, Outcome
from neverforget.runtime.demo.showing_memories import show_learned

BAR_WIDTH = 36
FAULTS_SHOWN = 10


class Screen:
    """An audience that is a person at a terminal, or a log file: then without what moves."""

    def __init__(self, console: Console) -> None:
        self._out = console
        self._live: Live | None = None

    def begins(self, outcome: Outcome, seconds: float) -> None:
        said = f"{outcome.conversations:,} conversations, {outcome.lines:,} turns"
        self._out.print(Rule(Text("neverforget demo", "bold"), align="left", style="bright_black"))
        self._out.print(
            f"{outcome.agents} agents say {said} for {seconds:g} s, over and over, "
            "and wait for the disk with every turn."
        )
        self._out.print("Halfway the process that owns most of it is killed with SIGKILL.")
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
        if not self._out.is_terminal:
            return
        live = self._live
        if live is None:
            live = self._live = self._moving(Text())
            live.start()
        row = Table.grid(padding=(0, 1))
        row.add_row(
            Text("▸", "cyan"),
            ProgressBar(seconds, min(elapsed_s, seconds), width=BAR_WIDTH),
            f"{min(elapsed_s, seconds):4.1f} s",
            Text(f"{turns:,} turns acknowledged", "bold"),
        )
        live.update(row, refresh=True)

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
        if self._live is not None:
            self._live.stop()
            self._live = None
        if kill.owner is None or kill.back_in_s is None:
            return
        self._line(
            "✓",
            "green",
            f"partition {kill.partition} lives on in process {kill.owner.pid}, "
            f"epoch {kill.owner.epoch}, recovered in {kill.owner.recovery_s * 1000:,.0f} ms",
            None,
        )
        answered = Text("  ✓ ", "green")
        answered.append("first acknowledged turn after the kill: ")
        answered.append(f"{kill.back_in_s:.2f} s", "bold")
        self._out.print(answered)

    def _tick(self, what: str, seconds: float) -> None:
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
        self._tail(outcome)
        show_learned(self._out, outcome.learned)
        self._verdict(outcome)
        if kept:
            self._out.print()
            self._out.print(
                f"The store is kept: neverforget sessions {outcome.folder}", markup=False
            )

    def _tail(self, outcome: Outcome) -> None:
        if outcome.tail_of is None:
            return
        title = Text(f"the end of {place(*outcome.tail_of)}", "bold")
        self._out.print(Rule(title, align="left", style="bright_black"))
        for turn in outcome.tail:
            self._out.print(turn_view(turn, wrap=self._out.is_terminal))
        self._out.print(Rule(style="bright_black"))
        self._out.print()

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
        learned = outcome.learned
        if learned.ok:
            self._fact(True, f"{len(learned.kept):,} memories: each is there, as it was remembered")
        for fault in learned.faults[:FAULTS_SHOWN]:
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


def latencies(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Percentiles over all agents, by what they did."""
    measured = {
        "append, on disk": [d for each in outcome.notes for d in each.appends],
        "tail of 10": [d for each in outcome.notes for d in each.tails],
        "page of 20": [d for each in outcome.notes for d in each.pages],
        "remember, on disk": outcome.learned.remembered,
    }
    found: dict[str, dict[str, Any]] = {}
    for name, durations in measured.items():
        ordered = sorted(durations)
        found[name] = {
            "calls": len(ordered),
            "p50_s": _percentile(ordered, 0.50),
            "p99_s": _percentile(ordered, 0.99),
            "max_s": ordered[-1] if ordered else 0.0,
        }
    return found


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


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


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome for a program."""
    kill = outcome.kill
    return {
        "ok": outcome.ok,
        "agents": outcome.agents,
        "conversations": outcome.conversations,
        "acknowledged": outcome.verdict.acknowledged,
        "talked_s": outcome.talked_s,
        "sessions": outcome.verdict.sessions,
        "unacknowledged": outcome.verdict.unacknowledged,
        "faults": outcome.verdict.faults,
        "failures": [failure for each in outcome.notes for failure in each.failures],
        "killed": None
        if kill is None
        else {"partition": kill.partition, "pid": kill.pid, "back_in_s": kill.back_in_s},
        "learned": {
            "memories": len(outcome.learned.kept),
            "recalled": {
                answer.question.how: [hit.memory.text for hit in answer.hits]
                for answer in outcome.learned.answers
            },
            "audit": [entry.operation for entry in outcome.learned.audit],
            "faults": outcome.learned.faults,
        },
        "latencies": latencies(outcome),
    }
