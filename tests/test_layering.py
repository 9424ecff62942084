"""Imports point down, and Ray stands in few files. Read from the source: lazy ones count."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("storage", "actors", "runtime")
RAY_ALLOWED = {
    "actors/spawn.py",
    "actors/handles.py",
    "actors/ray_metrics.py",  # only a process of Ray's can hand metrics to it
    "actors/ray_link.py",  # whether Ray can be asked at all, before handles.py asks it
    "runtime/cluster.py",
    "runtime/deployed_cluster.py",
}
HEAVY = ("ray", "faiss", "pyarrow", "numpy", "onnxruntime", "tantivy", "typer", "rich")

# What each layer may import of this project, itself included.
BELOW = {
    "storage": {"storage"},
    "actors": {"storage", "actors"},
    "runtime": {"storage", "actors", "runtime"},
}
FORBIDDEN = {"storage": {"ray", "asyncio"}, "actors": set[str](), "runtime": set[str]()}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def imported(path: Path) -> set[str]:
    """Every dotted name that the file imports, also inside a function or by import_module."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; say neverforget.…"
            assert node.module is not None
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                names.add(node.args[0].value)
    return names


def top_level_imports(path: Path) -> set[str]:
    """Imports that run when the module is imported; those under ``if TYPE_CHECKING`` do not."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_a_layer_imports_only_what_lies_below_it(package: str) -> None:
    wrong = []
    for path in modules(package):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "neverforget" and len(parts) > 1 and parts[1] in PACKAGES:
                if parts[1] not in BELOW[package]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
            elif parts[0] in FORBIDDEN[package]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_ray_is_imported_in_few_files_only() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in modules(package)
        if any(name.split(".")[0] == "ray" for name in imported(path))
    }
    assert found <= RAY_ALLOWED


def test_nothing_imports_a_package_by_its_bare_name() -> None:
    """From the repository root ``import storage`` works, and is a second copy of the package."""
    # Only files that may are parsed: those are few of a thousand.
    may = re.compile(
        rf"^\s*(from|import)\s+(\.|({'|'.join(PACKAGES)})\b)|import_module|__import__", re.M
    )
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in (*PACKAGES, "tests", "bench", "src")
        for path in (ROOT / folder).rglob("*.py")
        if may.search(path.read_text(encoding="utf-8"))
        for name in imported(path)
        if name.split(".")[0] in PACKAGES
    ]
    assert not wrong


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        f"neverforget.{package}.{path.stem}": top_level_imports(path)
        for package in PACKAGES
        for path in modules(package)
        if path.stem != "__init__"
    }
    state: dict[str, int] = {}
    circles: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        if state.get(name) == 1:
            circles.append(" -> ".join((*trail[trail.index(name) :], name)))
            return
        state[name] = 1
        for target in graph[name] & graph.keys():
            visit(target, (*trail, name))
        state[name] = 2

    for name in graph:
        visit(name, ())
    assert not circles


def test_importing_neverforget_loads_nothing_heavy() -> None:
    code = f"import sys, neverforget; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
