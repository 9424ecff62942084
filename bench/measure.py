"""How every script here measures and reports.

The machine is shared and noisy, so nothing is compared across runs: all contenders of a table run
in one process tree in short interleaved rounds, each figure is the median of its rounds, and a
ratio is the median of the ratios within a round. Latencies are nanoseconds inside, microseconds in
tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

TEXT = ("We agreed to move the launch to the second week of March, after the audit. " * 4)[:300]


MODELS = ("faiss-cpu", "tantivy", "pyarrow", "onnxruntime")


class Contender(Protocol):
    """Something that does the same job again and again. ``round`` returns nanoseconds per call."""

    name: str

    def round(self, calls: int) -> list[int]: ...

    def close(self) -> None: ...


@dataclasses.dataclass
class Row:
    """One line of a table. ``ratio`` is ours to the peer; ``met`` None: there is no target."""

    what: str
    unit: str
    ours: float
    peer: str = ""
    peer_value: float | None = None
    limit: str = ""
    limit_value: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None


@dataclasses.dataclass
class Table:
    """``text``: the table itself, of a script whose columns are others."""

    claim: str
    title: str
    notes: list[str]
    rows: list[Row]
    text: str = ""

    def render(self) -> str:
        """GitHub table; also what is printed."""
        if self.text:
            return self.text
        head = ["what", "unit", "ours", "peer", "", "limit", "", "ours / peer", "target", "met"]
        lines = [head]
        for row in self.rows:
            met = {True: "yes", False: "**no**", None: ""}[row.met]
            cells = [row.what, row.unit, shown(row.ours), row.peer, shown(row.peer_value)]
            cells += [row.limit, shown(row.limit_value), shown(row.ratio), row.target, met]
            lines.append(cells)
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        text = [
            "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
        return "\n".join(text)


def shown(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclasses.dataclass
class Rounds:
    """Per contender, the samples of each round in nanoseconds."""

    samples: dict[str, list[list[int]]]

    def us(self, name: str, share: float = 0.5) -> float:
        """Median over rounds of the round's quantile, in microseconds."""
        return statistics.median(quantile(r, share) for r in self.samples[name]) / 1000

    def ratio(self, ours: str, peer: str, share: float = 0.5) -> float:
        pairs = zip(self.samples[ours], self.samples[peer], strict=True)
        return statistics.median(quantile(a, share) / quantile(b, share) for a, b in pairs)


def interleave(
    contenders: Sequence[Contender], *, rounds: int, calls: Callable[[str], int] | int
) -> Rounds:
    """One unmeasured round, then ``rounds`` in turn, each contender after the other."""
    count = calls if callable(calls) else lambda _name: calls
    samples: dict[str, list[list[int]]] = {c.name: [] for c in contenders}
    for contender in contenders:
        contender.round(max(1, count(contender.name) // 5))
    for number in range(rounds):
        # Turn the order around every other round: whoever comes after a heavy writer pays for it.
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            samples[contender.name].append(contender.round(count(contender.name)))
    return Rounds(samples)


def timed(call: Callable[[], object], calls: int) -> list[int]:
    clock = time.perf_counter_ns
    samples = []
    for _ in range(calls):
        start = clock()
        call()
        samples.append(clock() - start)
    return samples


# ---- the machine ---------------------------------------------------------------------------------


def environment(directory: Path) -> dict[str, str]:
    names = ("neverforget", "ray", "numpy", "cbor2", "msgspec", "crc32c", *MODELS)
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in names)
    return {
        "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(os.cpu_count()),
        "processor": processor(),
        "system": f"{platform.system()} {platform.release()}, {file_system(directory)}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": f"{versions}, SQLite {sqlite3.sqlite_version}",
        "load": " ".join(f"{x:.1f}" for x in os.getloadavg()),
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "unknown")


def file_system(directory: Path) -> str:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "file system unknown"
    around = [m for m in mounts if directory.resolve().is_relative_to(m[1])]
    return max(around, key=lambda m: len(m[1]))[2] if around else "file system unknown"


# ---- running -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Options:
    """``quick``: a smoke run. ``directory``: scratch, on the disk to measure. ``sizes``: how much
    of it, where a script can be told.
    """

    quick: bool
    directory: Path
    sizes: tuple[int, ...] = ()


@contextmanager
def scratch(options: Options, name: str) -> Iterator[Path]:
    """A fresh folder on the disk to measure; not tmpfs, where a sync costs nothing."""
    options.directory.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=options.directory)).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def main(run: Callable[[Options], Table | None], *, sized: bool = False) -> None:
    """The command line of every script. ``run`` returns None where it has nothing to measure, and
    says why. ``sized``: it can be told how much to measure.
    """
    parser = argparse.ArgumentParser(description=sys.modules[run.__module__].__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke run; its figures mean nothing"
    )
    parser.add_argument("--directory", type=Path, default=Path(".bench"), help="scratch folder")
    parser.add_argument("--json", type=Path, help="write the table and the machine here as well")
    if sized:
        parser.add_argument("--sizes", type=int, nargs="+", default=[], help="how many to measure")
    arguments = parser.parse_args()
    options = Options(arguments.quick, arguments.directory, tuple(arguments.sizes) if sized else ())
    started = time.monotonic()
    table = run(options)
    if table is None:
        return
    about = environment(options.directory)
    print(f"{table.title}\n\n{table.render()}\n")
    for note in table.notes:
        print(f"* {note}")
    print(f"* {'; '.join(f'{k}: {v}' for k, v in about.items())}")
    if arguments.json:
        result = {
            **dataclasses.asdict(table),
            "environment": about,
            "quick": options.quick,
            "seconds": round(time.monotonic() - started, 1),
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
