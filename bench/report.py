"""Run every benchmark, or take their JSON, and write docs/benchmarks.md.

python -m bench.report --run --write docs/benchmarks.md     what `make bench` does
python -m bench.report .bench/results/*.json                print the tables of earlier runs
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.measure import Row, Table

SCRIPTS = (
    *("append", "clients", "read", "open", "memory", "recovery", "recall"),
    *("generations", "chunking", "reflecting"),
    *("nodes", "connects", "access", "capacity"),
    *("locomo", "extraction", "planted"),
)
HEAD = """# Benchmarks

Written by `make bench`; every table is one script in `bench/` and one run, in which ours, the peer
and the bare limit took turns in short interleaved rounds. Compare figures within a table, not
between tables or machines: this is a small shared machine, and its load changes from minute to
minute. Ratios are medians of ratios within a round. "met" says whether the project's own target
held in this run.
"""


def load(path: Path) -> tuple[Table, dict[str, Any]]:
    found = json.loads(path.read_text())
    rows = [Row(**row) for row in found["rows"]]
    text = found.get("text", "")
    return Table(found["claim"], found["title"], found["notes"], rows, text), found


def render(paths: list[Path]) -> str:
    parts = [HEAD]
    machine: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: SCRIPTS.index(load(p)[0].claim)):
        table, found = load(path)
        machine = found["environment"]
        parts.append(
            f"## {table.title}\n\n`python -m bench.bench_{table.claim}`\n\n{table.render()}\n"
        )
        notes = [*table.notes, f"{machine['when']}, {found['seconds']} s, load {machine['load']}"]
        if found["quick"]:
            notes.append("**a quick run: its figures mean nothing**")
        parts.append("\n".join(f"* {note}" for note in notes) + "\n")
    lines = [f"* {name}: {machine[name]}" for name in machine if name not in ("when", "load")]
    parts.append("## The machine\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def run_all(scripts: list[str], directory: Path, quick: bool) -> list[Path]:
    """Each script in a fresh process; one that fails is reported at the end, the others go on. What
    a script that has nothing to measure found earlier stays.
    """
    results, failed = [], []
    for name in scripts:
        result = directory / "results" / f"{name}.json"
        new = result.with_suffix(".new")
        command = [sys.executable, "-m", f"bench.bench_{name}", "--directory", str(directory)]
        command += ["--json", str(new), *(["--quick"] if quick else [])]
        print(f"\n=== {name} ===", flush=True)
        start = time.monotonic()
        code = subprocess.run(command).returncode
        print(f"    {time.monotonic() - start:.0f} s", flush=True)
        if code == 0 and new.exists():
            new.replace(result)
            results.append(result)
        elif code == 0:
            print("    nothing was measured", flush=True)
        else:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; nothing was written")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, help="JSON of earlier runs")
    parser.add_argument("--run", action="store_true", help="measure now")
    parser.add_argument(
        "--only", choices=SCRIPTS, action="append", help="with --run: these scripts"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smoke run; its figures mean nothing"
    )
    parser.add_argument("--directory", type=Path, default=Path(".bench"))
    parser.add_argument("--write", type=Path, help="write the report here as well")
    arguments = parser.parse_args()
    paths = list(arguments.results)
    if arguments.run:
        run_all(arguments.only or list(SCRIPTS), arguments.directory, arguments.quick)
        # What an earlier run measured and this one did not stays in the report, with its own date.
        paths = sorted((arguments.directory / "results").glob("*.json"))
    if not paths:
        parser.error("name results, or say --run")
    text = render(paths)
    if arguments.write:
        arguments.write.write_text(text)
        print(f"\nwrote {arguments.write}")
    else:
        print(text)


if __name__ == "__main__":
    main()
