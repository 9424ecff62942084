"""The program that comes after this one: one constant is one higher, and what is older it reads.

    python -m tests.runtime.newer_program MODULE CONSTANT

A line on standard input is the arguments of ``grow`` in JSON, and what it returns is one line. With
one argument more it dies with the store open when it has said that.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent.parent  # what runs here loads no pytest
PACKAGE = "neverforget"
SETTINGS: dict[str, Any] = {"partitions": 2, "segment_bytes": 1 << 16, "reflect_every_turns": 0}
SESSIONS, TURNS = 4, 3

Grown = dict[str, list[str]]


def grow(
    path: str, replica: str, said: str, before_closing: Callable[[Grown], None] = lambda _: None
) -> Grown:
    """Open the store, have ``said`` said and remembered, read all of it: what each session holds
    and, as "memories", what is remembered, found by searching."""
    import neverforget as nf
    from neverforget.runtime.embedder_hash import HashEmbedder

    how: dict[str, Any] = {"embedder": HashEmbedder(), "replica": f"file://{replica}"}
    with nf.open(path, inline=True, **SETTINGS, **how) as store:
        for number in range(SESSIONS):
            chat = store.session(f"chat-{number}")
            for turn in range(TURNS):
                chat.append("user", f"{said} {turn}", key=f"{said}-{turn}")
        store.remember(f"{said} was here")
        found = read(store)
        assert store.verify().ok
        before_closing(found)
        return found


def read(store: Any) -> Grown:
    names = [f"chat-{number}" for number in range(SESSIONS)]
    found = {name: [str(turn.content) for turn in store.session(name)] for name in names}
    found["memories"] = sorted(hit.memory.text for hit in store.recall("was here", limit=20))
    return found


class NewerProgram:
    """A process that runs it. ``module``: where ``constant`` is defined, without the package."""

    def __init__(self, module: str, constant: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.newer_program", module, constant],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def grow(self, path: Path, replica: Path, said: str, *, dies: bool = False) -> Grown:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([str(path), str(replica), said, *["die"] * dies]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, "it has failed, see what it printed"
        if dies:
            process.wait()
        grown: Grown = json.loads(answer)
        return grown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()


class OneHigher(importlib.abc.MetaPathFinder):
    """Finds the modules of the package with ``constant`` raised; who wanted just one version
    refuses only what is above it."""

    def __init__(self, module: str, constant: str) -> None:
        self._module, self._constant = f"{PACKAGE}.{module}", constant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(PACKAGE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            source = Path(spec.origin).read_text()
            changed = self.changed(name, source)
            if changed != source:
                spec.loader = _Changed(name, spec.origin, changed)
        return spec

    def changed(self, name: str, source: str) -> str:
        if name == self._module:
            source, count = re.subn(
                rf"^({self._constant}(?:: Final)? = )(\d+)",
                lambda found: f"{found[1]}{int(found[2]) + 1}",
                source,
                flags=re.MULTILINE,
            )
            assert count == 1, f"{name} does not say once what {self._constant} is"
        return re.sub(r" != ([A-Z_]*_VERSION)\b", r" > \1", source)


class _Changed(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec", dont_inherit=True)
        return code


def main() -> int:
    assert PACKAGE not in sys.modules, "nothing of it is loaded as it is"
    sys.meta_path.insert(0, OneHigher(*sys.argv[1:]))
    for line in sys.stdin:
        path, replica, said, *dies = json.loads(line)
        tell(grow(path, replica, said, *[tell_and_die] * len(dies)))
    return 0


def tell(grown: Grown) -> None:
    print(json.dumps(grown), flush=True)


def tell_and_die(grown: Grown) -> None:
    tell(grown)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
