"""Claim: an owner keeps at most 24 bytes a turn and 400 bytes a session in memory.

Each figure is the growth of a process's private memory (RssAnon) over an empty store, after
opening a store inline, and after filling one by appends. The peer is the same index as a plain
Python dict of lists of pairs; the limit is two 8-byte numbers a turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.measure import TEXT, Options, Row, Table, main, scratch

SESSION_NAME_BYTES = 12


def run(options: Options) -> Table:
    turns, sessions = (20_000, 2_000) if options.quick else (1_000_000, 100_000)
    with scratch(options, "memory") as folder:
        empty = child("open", folder / "empty", 0, 0)
        filled_turns = child("fill", folder / "turns", turns, 1)
        opened_turns = child("open", folder / "turns", turns, 1)
        filled_sessions = child("fill", folder / "sessions", sessions, sessions)
        opened_sessions = child("open", folder / "sessions", sessions, sessions)
        plain_turns = child("plain", folder, turns, 1)
        plain_sessions = child("plain", folder, sessions, sessions)
    return Table(
        "memory",
        "Private memory of an owner",
        [
            f"{turns:,} turns in one session; {sessions:,} sessions of one turn each",
            f"an empty store, inline, with Python and its libraries: {empty / 2**20:.0f} MiB",
            "the log itself is mapped read-only or read on demand: page cache, shared, not counted",
        ],
        [
            row("a turn, after opening", opened_turns - empty, turns, plain_turns, 24, 16),
            row("a turn, after appending", filled_turns - empty, turns, plain_turns, 24, 16),
            row("a session, after opening", opened_sessions - empty, sessions, plain_sessions, 400),
            row(
                "a session, after appending", filled_sessions - empty, sessions, plain_sessions, 400
            ),
            Row(
                "a million turns, after opening",
                "MiB",
                (opened_turns - empty) / 2**20 * 1e6 / turns,
            ),
        ],
    )


def row(
    what: str, grown: int, count: int, plain: int, target: int, limit: float | None = None
) -> Row:
    value, other = grown / count, plain / count
    name = "two numbers" if limit else ""
    return Row(
        what, "bytes", value, "dict of lists", other, name, limit, value / other,
        f"<= {target}", value <= target,
    )  # fmt: skip


def child(word: str, path: Path, turns: int, sessions: int) -> int:
    command = [sys.executable, "-m", "bench.bench_memory", word, str(path), str(turns)]
    run = subprocess.run([*command, str(sessions)], check=True, stdout=subprocess.PIPE, text=True)
    return int(json.loads(run.stdout.splitlines()[-1]))


def work(word: str, path: Path, turns: int, sessions: int) -> int:
    """What the child does; private bytes of the process at its end (``plain``: their growth)."""
    if word == "plain":
        before = private_bytes()
        index = plain_index(turns, sessions)
        assert len(index) == sessions
        return private_bytes() - before
    import neverforget as nf
    from bench import ours

    with nf.open(path, inline=True, partitions=1) as store:
        if word == "fill" and sessions == 1:
            ours.fill(store, "chat", turns)
        elif word == "fill":
            for number in range(sessions):
                name = f"{number:0{SESSION_NAME_BYTES}d}"
                store.session(name).append("user", TEXT, sync="process")
        elif not (path / "regions").exists():
            store.session("first").append("user", TEXT)
        return private_bytes()


def plain_index(turns: int, sessions: int) -> dict[str, list[tuple[int, int]]]:
    """What one would write first: position and running token sum of each turn, by session."""
    each = turns // sessions
    return {
        f"{number:0{SESSION_NAME_BYTES}d}": [
            (376 * (number * each + seq), 75 * (seq + 1)) for seq in range(each)
        ]
        for number in range(sessions)
    }


def private_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon: this script needs Linux")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("open", "fill", "plain"):
        print(work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        main(run)
