"""Claim: a store opens in time, however long its log, and attaching to a hosted one is quick.

Opening is ``nf.open(path, inline=True)`` of one partition in a fresh process whose modules are
loaded already, page cache warm: by a full scan that checks every checksum (side files deleted),
and by side files. The limits are one CRC32C pass over the segments and one read of the side files;
SQLite's quick_check also reads everything, its plain opening reads next to nothing. Attaching is
import, open and the first answered append in a new process; the peer joins a Ray and calls once.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import neverforget as nf
from bench import ours
from bench.measure import TEXT, Options, Row, Table, main, scratch
from bench.peers import RayCall, connect

OPEN = """
import json, sys, time
import neverforget as nf
with nf.open(sys.argv[1] + ".warm", inline=True, partitions=1) as store:
    store.session("warm").append("user", "up", sync="process")
start = time.perf_counter()
store = nf.open(sys.argv[1], inline=True)
seconds = time.perf_counter() - start
print(json.dumps([seconds, len(store.session("chat"))]))
store.close()
"""
ATTACH = """
import time
start = time.perf_counter()
import sys
import neverforget as nf
store = nf.open(sys.argv[1], host="never")
opened = time.perf_counter() - start
store.session("attached").append("user", "here")
print(opened, time.perf_counter() - start)
assert "ray" not in sys.modules
store.close()
"""
CRC = """
import mmap, sys, time
import crc32c
start = time.perf_counter()
for name in sys.argv[1:]:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        crc32c.crc32c(data)
print(time.perf_counter() - start)
"""


def run(options: Options) -> Table:
    rounds = 1 if options.quick else 5
    sizes = [1000, 3000] if options.quick else [10_000, 100_000, 1_000_000]
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "open"))
        for turns in sizes:
            build(folder / f"{turns}", turns)
            fill_peer(folder / f"{turns}.db", turns)
        stack.enter_context(ours.serving(folder / "hosted"))
        peer = RayCall()
        stack.callback(peer.close)
        for _ in range(rounds):
            for turns in sizes:
                note(samples, measure_size(folder, turns))
            opened, answered = map(float, python(ATTACH, folder / "hosted").split())
            note(samples, {"attach": opened, "first append": answered, "ray": peer.attach()})
            note(samples, {"python": seconds_of(lambda: python("pass"))})
    return Table(
        "open",
        "Opening and attaching",
        [
            f"medians of {rounds} interleaved rounds; turns of 300 characters, one session",
            "a full scan checks the header and body checksum of every record",
            "attach counts from before `import neverforget`, without the start of Python itself",
        ],
        rows_of({name: statistics.median(values) for name, values in samples.items()}, sizes),
    )


def build(path: Path, turns: int) -> None:
    """A closed store of one partition: every segment sealed, side files beside them."""
    with nf.open(path, inline=True, partitions=1, reflect_every_turns=0) as store:
        ours.fill(store, "chat", turns)


def fill_peer(path: Path, turns: int) -> None:
    connection = connect(path)
    rows = (("chat", seq, "user", TEXT, seq) for seq in range(turns))
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
    connection.close()


def measure_size(folder: Path, turns: int) -> dict[str, float]:
    """Each way of opening once. Closing seals again, so the side files are back afterwards."""
    path = folder / f"{turns}"
    log = path / "regions" / "p0" / "log"
    found = {f"side {turns}": open_once(path, turns)}
    heads = sorted(log.glob("*.heads"))
    found[f"read {turns}"] = seconds_of(lambda: [h.read_bytes() for h in heads])
    for head in heads:
        head.unlink()
    found[f"scan {turns}"] = open_once(path, turns)
    segments = sorted(log.glob("*.seg"))
    found[f"crc {turns}"] = float(python(CRC, *segments))
    found[f"check {turns}"] = seconds_of(lambda: ask_peer(path, "PRAGMA quick_check"))
    found[f"plain {turns}"] = seconds_of(
        lambda: ask_peer(path, "SELECT max(seq) FROM turns WHERE session = 'chat'")
    )
    return found


def open_once(path: Path, turns: int) -> float:
    seconds, found = json.loads(python(OPEN, path))
    assert found == turns, f"{found} turns instead of {turns}"
    return float(seconds)


def ask_peer(path: Path, question: str) -> None:
    connection = connect(path.with_name(path.name + ".db"))
    connection.execute(question).fetchall()
    connection.close()


def python(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def seconds_of(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def note(samples: dict[str, list[float]], found: dict[str, float]) -> None:
    for name, value in found.items():
        samples.setdefault(name, []).append(value)


TARGETS = {("scan", 100_000): 500.0, ("side", 1_000_000): 1000.0}


def rows_of(m: dict[str, float], sizes: list[int]) -> list[Row]:
    rows = []
    ways = (
        ("scan", "full scan", "SQLite quick_check", "check", "CRC32C of the bytes", "crc"),
        ("side", "side files", "SQLite", "plain", "read of the side files", "read"),
    )
    for way, words, peer, peer_key, limit, limit_key in ways:
        for turns in sizes:
            value, other = 1e3 * m[f"{way} {turns}"], 1e3 * m[f"{peer_key} {turns}"]
            target = TARGETS.get((way, turns))
            rows.append(
                Row(
                    f"open, {words}, {turns:,} turns", "ms", value, peer, other, limit,
                    1e3 * m[f"{limit_key} {turns}"], value / other,
                    f"< {target:,.0f} ms" if target else "", value < target if target else None,
                )
            )  # fmt: skip
    for name, words, target in (("attach", "attach", 300.0), ("first append", "attach, append", 0)):
        value = 1e3 * m[name]
        rows.append(
            Row(
                words, "ms", value, "join a Ray, one call", 1e3 * m["ray"],
                "start of Python", 1e3 * m["python"], m[name] / m["ray"],
                f"< {target:,.0f} ms" if target else "", value < target if target else None,
            )
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    main(run)
