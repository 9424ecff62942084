"""House rules that a test can check: sizes, docstrings, words, and nothing of one machine.

The bounds have room over what a reader should expect (300 and 70 lines); an exception stands here
by name, with its reason, so that a second one is a decision.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ("storage", "actors", "runtime", "src")
ALL_CODE = (*SOURCE, "tests", "bench")

FILE_LINES_MAX = {"source": 350, "tests": 600}
FUNCTION_LINES_MAX = {"source": 80, "tests": 120}
WIDTH_MAX = 100

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

BANNED_MODULES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
BANNED_NAMES = {"journal", "blob", "utils", "helper", "misc"}  # words of other houses
ASIDES = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error")

# Paths of somebody's machine, and links: only these places may be named.
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:work|farm|root|home|Users|mnt|opt)/")
LINK = re.compile(r"https?://([\w.-]+)")
LINKS_ALLOWED = {
    "localhost",
    "127.0.0.1",
    "host",
    "www.apache.org",
    "keepachangelog.com",
    "semver.org",
}


def code(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if folder != "src" or not any(parent.is_symlink() for parent in path.parents):
                yield path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def kind_of(path: Path) -> str:
    return "tests" if name_of(path).startswith(("tests/", "bench/")) else "source"


class Seen(NamedTuple):
    """What a file says. ``functions``: lines by name; ``swallowed``: lines of handlers that do
    nothing with an error of any kind."""

    docstring: bool
    functions: list[tuple[str, int]]
    defined: list[tuple[int, str]]
    swallowed: list[int]


@cache
def seen_in(path: Path) -> Seen:
    """Read once: there are hundreds of files, and four tests that look at all of them."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = Seen(bool(not text.strip() or ast.get_docstring(tree)), [], [], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            found.functions.append((node.name, lines))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.defined.append((node.lineno, node.name))
        if isinstance(node, ast.ExceptHandler) and swallows(node):
            found.swallowed.append(node.lineno)
    return found


def swallows(node: ast.ExceptHandler) -> bool:
    if node.type is None:
        return True
    caught = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
    silent = all(isinstance(s, ast.Pass | ast.Continue | ast.Break) for s in node.body)
    return silent and bool(caught & {"Exception", "BaseException"})


def tracked_text() -> Iterator[tuple[str, str]]:
    """Every text file under version control (or, in an unpacked archive, every file there is)."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listing.stdout.splitlines() or [
        name_of(path) for path in ROOT.rglob("*") if ".venv" not in path.parts
    ]
    for name in names:
        path = ROOT / name
        if path.is_symlink() or not path.is_file() or name == "LICENSE":
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a frozen log under tests/data/


def test_files_are_short_enough_to_read_in_one_go() -> None:
    lengths = {name_of(p): (len(p.read_text().splitlines()), kind_of(p)) for p in code(*ALL_CODE)}
    long = {n: k for n, (k, kind) in lengths.items() if k > FILE_LINES_MAX[kind]}
    assert long.keys() <= LONG_FILES.keys(), long
    assert LONG_FILES.keys() <= long.keys(), "an exception that is no longer needed"


def test_functions_fit_on_a_screen() -> None:
    long = {}
    for path in code(*ALL_CODE):
        for name, lines in seen_in(path).functions:
            if lines > FUNCTION_LINES_MAX[kind_of(path)]:
                long[f"{name_of(path)}:{name}"] = lines
    assert long.keys() <= LONG_FUNCTIONS.keys(), long
    assert LONG_FUNCTIONS.keys() <= long.keys(), "an exception that is no longer needed"


def test_lines_fit_in_a_hundred_columns() -> None:
    wide = [
        f"{name_of(path)}:{number}"
        for path in code(*ALL_CODE)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > WIDTH_MAX and "noqa: E501" not in line
    ]
    assert not wide


def test_every_module_says_what_it_is_for() -> None:
    assert not [name_of(path) for path in code(*ALL_CODE) if not seen_in(path).docstring]


def test_no_module_is_a_drawer_for_everything() -> None:
    assert not [name_of(p) for p in code(*ALL_CODE) if p.stem.lstrip("_") in BANNED_MODULES]


def test_names_come_from_the_vocabulary() -> None:
    wrong = []
    for path in code(*SOURCE):
        for number, name in seen_in(path).defined:
            words = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", name).lower())
            if BANNED_NAMES & set(words):
                wrong.append(f"{name_of(path)}:{number} {name}")
    assert not wrong


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in code(*ALL_CODE)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(word in line for word in ASIDES)
    ]
    assert not left


def test_no_error_is_swallowed() -> None:
    """``except:`` never; ``except Exception`` only where the error is answered, logged or kept."""
    assert not [
        f"{name_of(path)}:{number}"
        for path in code(*ALL_CODE)
        for number in seen_in(path).swallowed
    ]


def test_tests_do_not_sleep() -> None:
    naps = re.compile(r"\b(?:time|asyncio|anyio)\.sleep\((?!0\))")
    wrong = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in code("tests")
        if path.name.startswith(("test_", "conftest")) and path.name != "test_tidy.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if naps.search(line)
    ]
    assert not wrong


def test_nothing_names_a_machine_or_a_strangers_host() -> None:
    wrong = []
    for name, text in tracked_text():
        for number, line in enumerate(text.splitlines(), 1):
            hosts = set(LINK.findall(line)) - LINKS_ALLOWED
            if MACHINE_PATH.search(line) or (hosts and not name.startswith("tests/")):
                wrong.append(f"{name}:{number} {line.strip()[:80]}")
    assert not wrong


def test_constraints_are_names_and_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [n for n in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", n)] == []
