"""Claim: an owner keeps at most 24 bytes a turn and 400 bytes a session in memory.

Each figure is the growth of private memory (RssAnon): of a process that opens the store inline,
over one that opens an empty store, and of the owner processes of a hosted store while it is
filled. The peer is the same index as a plain Python dict of lists of pairs; the limit is two
8-byte numbers a turn.
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
        filled_turns = fill_hosted(folder / "turns", turns, 1)
        filled_sessions = fill_hosted(folder / "sessions", sessions, sessions)
        empty = child("open", folder / "empty", 0, 0)
        opened_turns = child("open", folder / "turns", turns, 1) - empty
        opened_sessions = child("open", folder / "sessions", sessions, sessions) - empty
        plain_turns = child("plain", folder, turns, 1)
        plain_sessions = child("plain", folder, sessions, sessions)
    million = Row("a million turns, after opening", "MiB", opened_turns / 2**20 * 1e6 / turns)
    one = "a session of one turn"
    return Table(
        "memory",
        "Private memory of an owner",
        [
            f"{turns:,} turns in one session; {sessions:,} sessions of one turn each",
            f"an empty store, inline, with Python and its libraries: {empty / 2**20:.0f} MiB",
            "the log itself is mapped read-only or read on demand: page cache, shared, not counted",
        ],
        [
            row("a turn, after opening", opened_turns, turns, plain_turns, 24, 16),
            row("a turn, after appending", filled_turns, turns, plain_turns, 24, 16),
            row(f"{one}, after opening", opened_sessions, sessions, plain_sessions, 424),
            row(f"{one}, after appending", filled_sessions, sessions, plain_sessions, 424),
            million,
        ],
    )


def fill_hosted(path: Path, turns: int, sessions: int) -> int:
    """Bytes by which the owner processes of a hosted store grow while it is filled."""
    from bench import ours

    with ours.hosted(path) as store:
        store.session("first").append("user", TEXT)
        owners = {owner.pid for owner in store.status().owners}
        before = sum(private_bytes(pid) for pid in owners)
        if sessions == 1:
            ours.fill(store, "chat", turns)
        else:
            for number in range(sessions):
                store.session(name_of(number)).append("user", TEXT, sync="process")
        return sum(private_bytes(pid) for pid in owners) - before


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

    with nf.open(path, inline=True) as store:
        if turns == 0:
            store.session("first").append("user", TEXT)
        return private_bytes()


def plain_index(turns: int, sessions: int) -> dict[str, list[tuple[int, int]]]:
    """What one would write first: position and running token sum of each turn, by session."""
    each = turns // sessions
    return {
        name_of(number): [(376 * (number * each + seq), 75 * (seq + 1)) for seq in range(each)]
        for number in range(sessions)
    }


def name_of(number: int) -> str:
    return f"{number:0{SESSION_NAME_BYTES}d}"


def private_bytes(pid: int | str = "self") -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon: this script needs Linux")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("open", "plain"):
        print(work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        main(run)
