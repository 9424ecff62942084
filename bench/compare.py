"""Two runs side by side, row by row: what a change did.

python -m bench.compare before/append.json after/append.json

Absolute figures of two runs on a shared machine differ by its load; the column to look at is the
change of the ratio to the peer, which was measured in the same minutes as ours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.measure import Row, shown
from bench.report import load


def compare(before: list[Row], after: list[Row]) -> list[str]:
    """One line a row that both have; then what only one of them has."""
    old = {key(row): row for row in before}
    new = {key(row): row for row in after}
    lines = []
    for name in [k for k in new if k in old]:
        a, b = old[name], new[name]
        line = f"{b.what} [{b.unit}]: {shown(a.ours)} -> {shown(b.ours)} ({change(a.ours, b.ours)})"
        if a.ratio and b.ratio:
            line += (
                f"; to {b.peer}: {shown(a.ratio)} -> {shown(b.ratio)} ({change(a.ratio, b.ratio)})"
            )
        lines.append(line)
    lines += [f"only before: {old[k].what}" for k in old if k not in new]
    lines += [f"only after: {new[k].what}" for k in new if k not in old]
    return lines


def key(row: Row) -> tuple[str, str]:
    return row.what, row.peer


def change(before: float, after: float) -> str:
    return f"{(after / before - 1) * 100:+.0f} %" if before else "new"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    arguments = parser.parse_args()
    (before, _), (after, _) = load(arguments.before), load(arguments.after)
    if before.claim != after.claim:
        parser.error(f"two different claims: {before.claim} and {after.claim}")
    print("\n".join(compare(before.rows, after.rows)))


if __name__ == "__main__":
    main()
