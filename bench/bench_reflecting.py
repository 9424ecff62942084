"""Claim: reflection keeps up with what is said, and holds no append up: while it runs, a durable
append to other sessions takes at most 1.5 times as long as before and after.

Synthetic dialogue, the rules that are the default extractor, over the public API. Throughput: a
whole store reflected by one call, inline and hosted, beside the extractor alone and beside
remembering every turn as it is. Latency: one client process that appends a durable turn every few
ms, in turns while nothing else happens and while another process has sessions reflected.
"""

from __future__ import annotations

import json
import os
import random
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import neverforget as nf
from bench import ours
from bench.dialogue import dialogue
from bench.measure import TEXT, Options, Rounds, Row, Table, main, scratch
from neverforget.actors.extractor_contract import Window, WindowTurn
from neverforget.runtime import extractors

SESSIONS, TURNS = 40, 250  # of the stores whose throughput is measured
ROUND_SESSIONS = 12  # reflected in one round of the latencies
WINDOW_TURNS = 60
PACE_S = 0.002
TALKS, OTHERS = "talks", "others"  # namespaces
RATIO_MAX = 1.5
IDLE, BUSY = "idle", "reflecting"
GO, STOP = b"g", b"s"  # what the appending process is told


class Reflected(NamedTuple):
    """What one call of ``reflect`` did."""

    turns: int
    facts: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.turns / self.seconds


def talk(store: nf.Store, first: int, sessions: int) -> None:
    """Conversations number ``first`` and on, not durable at once: they are only the load."""
    view = store.scoped(namespace=TALKS)
    for number in range(first, first + sessions):
        chat = view.session(f"talk-{number}", agent=f"agent-{number % 4}")
        chat.append_many(dialogue(number, TURNS), sync="process")


def reflect(store: nf.Store) -> Reflected:
    """All that waits of these conversations."""
    view = store.scoped(namespace=TALKS)
    start = time.perf_counter()
    report = view.reflect()
    seconds = time.perf_counter() - start
    assert not report.failed, report.failed
    return Reflected(report.turns, report.facts, seconds)


# ---- throughput ----------------------------------------------------------------------------------


def inline(folder: Path, sessions: int) -> Reflected:
    path = folder / "inline"
    with nf.open(path, inline=True, embedder="none", reflect_every_turns=0) as store:
        talk(store, 0, 1)
        reflect(store)  # what is made and loaded once
        talk(store, 1, sessions)
        return reflect(store)


def hosted(folder: Path, sessions: int) -> Reflected:
    with ours.hosted(stored(folder / "hosted")) as store:
        talk(store, 0, 1)
        reflect(store)
        talk(store, 1, sessions)
        return reflect(store)


def stored(path: Path) -> Path:
    """A store without an embedder, which would be at work on the facts for minutes."""
    nf.open(path, inline=True, embedder="none").close()
    return path


def remembered(folder: Path, sessions: int) -> float:
    """Turns a second where each is remembered as it is, inline, as many at once as in a window."""
    path = folder / "remembered"
    with nf.open(path, inline=True, embedder="none", reflect_every_turns=0) as store:
        turns = [turn for number in range(sessions) for turn in dialogue(number, TURNS)]
        items = [{"text": turn["content"], "speaker": turn["name"]} for turn in turns]
        start = time.perf_counter()
        for at in range(0, len(items), WINDOW_TURNS):
            store.remember_many(items[at : at + WINDOW_TURNS])
        return len(items) / (time.perf_counter() - start)


def extracted(sessions: int) -> float:
    """Turns a second of the extractor alone, in this thread."""
    extractor = extractors.made("rules")
    assert extractor is not None
    windows = [
        window
        for number in range(sessions)
        for window in windows_of(f"talk-{number}", dialogue(number, TURNS))
    ]
    start = time.perf_counter()
    for window in windows:
        extractor.extract(window)
    return sessions * TURNS / (time.perf_counter() - start)


def windows_of(session: str, turns: list[dict[str, Any]]) -> Iterator[Window]:
    now = int(time.time() * 1e6)
    for at in range(0, len(turns), WINDOW_TURNS):
        said = [
            WindowTurn(at + n, turn["role"], turn["name"], turn["content"], now)
            for n, turn in enumerate(turns[at : at + WINDOW_TURNS])
        ]
        yield Window((), session, tuple(said))


# ---- latency -------------------------------------------------------------------------------------


class Appender:
    """A process of its own that appends to some sessions until it is told to stop."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bench_reflecting", "appender", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout and self._process.stdout.readline() == b"ready\n"

    @contextmanager
    def appending(self, samples: list[int]) -> Iterator[None]:
        """Appends all the while; adds nanoseconds of each to ``samples``."""
        self._say(GO)
        yield
        self._say(STOP)
        assert self._process.stdout
        samples += json.loads(self._process.stdout.readline())

    def _say(self, word: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(word)
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate(timeout=60)


def append_when_told(path: Path) -> None:
    draw = random.Random(0)
    with nf.open(path, host="never") as store:
        chats = [store.session(f"chat-{number}", namespace=OTHERS) for number in range(8)]
        for chat in chats:
            chat.append("user", TEXT)
        print("ready", flush=True)
        told = sys.stdin.fileno()  # read past every buffer, which would hide a word from select
        while os.read(told, 1) == GO:
            samples: list[int] = []
            while not select.select([told], [], [], 0)[0]:
                chat = chats[len(samples) % len(chats)]
                start = time.perf_counter_ns()
                chat.append("user", TEXT)
                samples.append(time.perf_counter_ns() - start)
                time.sleep(draw.uniform(0, 2 * PACE_S))
            os.read(told, 1)
            print(json.dumps(samples), flush=True)


def latency(folder: Path, rounds: int, sessions: int) -> tuple[Rounds, list[Reflected]]:
    samples: dict[str, list[list[int]]] = {IDLE: [], BUSY: []}
    done: list[Reflected] = []
    with ours.hosted(stored(folder / "latency")) as store:
        appender = Appender(folder / "latency")
        talk(store, 0, 1)
        reflect(store)
        for number in range(rounds):
            talk(store, 1 + number * sessions, sessions)
            store.settle()
            taken: dict[str, list[int]] = {IDLE: [], BUSY: []}
            # As long as the reflecting takes, about, and before or after it by turns.
            rest_s = done[-1].seconds if done else 1.0
            for what in (IDLE, BUSY) if number % 2 else (BUSY, IDLE):
                with appender.appending(taken[what]):
                    if what == BUSY:
                        done.append(reflect(store))
                    else:
                        time.sleep(rest_s)
            for what, some in taken.items():
                samples[what].append(some)
        appender.close()
        assert store.verify().ok
    return Rounds(samples), done


def latency_rows(measured: Rounds, done: list[Reflected]) -> list[Row]:
    rows = []
    for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
        ratio = measured.ratio(BUSY, IDLE, share)
        aimed = share != 0.9
        rows.append(
            Row(
                f"durable append while sessions are reflected, {name}", "us",
                measured.us(BUSY, share), "itself, idle", measured.us(IDLE, share),
                ratio=ratio, target=f"<= {RATIO_MAX}" if aimed else "",
                met=ratio <= RATIO_MAX if aimed else None,
            )
        )  # fmt: skip
    longest = {what: max(chain.from_iterable(some)) for what, some in measured.samples.items()}
    rows.append(
        Row("the longest of all", "us", longest[BUSY] / 1000, "itself, idle", longest[IDLE] / 1000)
    )
    rate = statistics.median(each.rate for each in done)
    rows.append(Row("turns reflected meanwhile", "1/s", rate))
    return rows


def run(options: Options) -> Table:
    sessions, rounds, at_once = (4, 2, 4) if options.quick else (SESSIONS, 6, ROUND_SESSIONS)
    with scratch(options, "reflecting") as folder:
        alone = extracted(sessions)
        as_it_is = remembered(folder, sessions)
        rows = []
        for what, found in (
            ("inline", inline(folder, sessions)),
            ("hosted", hosted(folder, sessions)),
        ):
            rows.append(
                Row(
                    f"turns reflected by one call, {what}", "1/s", found.rate,
                    "every turn remembered", as_it_is, "the extractor alone", alone,
                    found.rate / as_it_is,
                )
            )  # fmt: skip
            rows.append(Row(f"memories for 100 turns, {what}", "", 100 * found.facts / found.turns))
        measured, done = latency(folder, rounds, at_once)
    rows += latency_rows(measured, done)
    calls = sum(map(len, measured.samples[BUSY]))
    notes = [
        f"throughput: {sessions} conversations of {TURNS} turns, two in five of which tell "
        "something; by rules, in windows of up to 60 turns; no embedder",
        f"every turn remembered: inline, {WINDOW_TURNS} in one call, durable as reflection is",
        f"latency: {rounds} rounds, in each {at_once * TURNS:,} turns are reflected by a hosted "
        f"reflector ({sum(each.turns for each in done):,} in all) while one client process appends "
        f"300 characters durably every {1000 * PACE_S:.0f} ms to 8 other sessions ({calls:,} times "
        "in all), and as long without",
        "the reflector, two partitions, the long-term owner and the client are five processes on "
        "the machine's cores",
        "it reflects as fast as it can here; by itself it does as much as is said, a few windows "
        "at a time. The slowest appends wait for the disk (three syncs for a window) and for a "
        "processor",
    ]
    return Table(
        "reflecting", "Reflecting on what was said, behind the back of appends", notes, rows
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["appender"]:
        append_when_told(Path(sys.argv[2]))
    else:
        main(run)
