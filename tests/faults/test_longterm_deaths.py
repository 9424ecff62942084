"""kill -9 at every call by which a deletion changes a file, its log's and everything derived.

On reopening it is complete or not begun, and the audit says which. The client asks again under the
same request id and hears what it would have heard; then nothing is left of what was taken away.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.forgetter import OPERATIONS, WORD, carry_out, furnish
from tests.faults.forked import Forked
from tests.faults.shim import Action, Shim
from tests.storage.bytes_left import files_holding, indexes_holding
from tests.storage.small_index import IndexBench, indexed
from tests.storage.small_longterm import everything

CALLS = ("pwrite", "write", "fdatasync", "fsync", "rename", "unlink")
QUICK_DEATHS = 4  # of each operation; --long: all


@pytest.fixture(scope="module")
def shim(shim_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """One for all tests, and for the process that they share."""
    one = Shim(shim_library, tmp_path_factory.mktemp("shim") / "fault-table")
    yield one
    one.close()


@pytest.fixture(scope="module")
def forgetter(shim: Shim) -> Iterator[Forked]:
    one = Forked("tests.faults.forgetter", shim)
    yield one
    one.close()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    with indexed(tmp_path / "template") as b:
        furnish(b)
    return tmp_path / "template"


def seen(b: IndexBench) -> dict[str, str]:
    views = b.region.memories(everything(), limit=1000).memories
    return {m.id: f"{m.status} {m.text} {m.context} {m.tags}" for m in views}


def copied(template: Path, name: str) -> Path:
    target = template.parent / name
    shutil.copytree(template, target)
    return target


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_deletion_is_complete_or_not_begun(
    forgetter: Forked, shim: Shim, template: Path, operation: str, long_run: bool
) -> None:
    with indexed(copied(template, "whole")) as b:
        before, entries = seen(b), len(b.audit())
        answer = carry_out(b, operation)
        after = seen(b)
    shim.disarm_all()
    forgetter.ready(f"{operation} {copied(template, 'counted')}")
    rules = {call: shim.arm(call, Action.COUNT, path=str(template.parent)) for call in CALLS}
    assert forgetter.go() == 0
    points = [
        (call, nth, action)
        for call, rule in rules.items()
        for nth in range(1, rule.seen + 1)
        for action in (Action.KILL_BEFORE, Action.KILL_AFTER)
    ]
    assert len(points) >= 4
    if not long_run:
        points = points[:: -(-len(points) // QUICK_DEATHS)]
    outcomes = set()
    for at, (call, nth, action) in enumerate(points):
        shim.disarm_all()
        store = copied(template, f"store{at}")
        forgetter.ready(f"{operation} {store}")
        shim.arm(call, action, path=str(store), first=nth)
        assert forgetter.go() == -signal.SIGKILL, (call, nth, action)
        outcomes.add(agrees(store, operation, before, after, entries, answer))
        shutil.rmtree(store)
    assert outcomes == {False, True} or not long_run


def agrees(store: Path, operation: str, before: Any, after: Any, entries: int, answer: Any) -> bool:
    """Whether the deletion was done; it is, and nothing is left of it, at the end."""
    with indexed(store) as b:
        found = seen(b)
        assert found in (before, after), "neither begun nor complete"
        done = bool(found == after)
        assert len(b.audit()) == entries + done, "the audit says otherwise"
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        assert carry_out(b, operation).ids == answer.ids, "the repeat is told something else"
        assert seen(b) == after
        assert len(b.audit()) == entries + 1
        living = {text.split(" ", 1)[1] for text in after.values() if text.startswith("active")}
        b.follow()
        for text in b.words(WORD):
            assert any(each.startswith(text) for each in living), text
        if operation in ("purge", "erase"):
            b.stored.publish()
            gone = ["four"] if operation == "purge" else ["one", "two", "summary"]
            assert files_holding(store, *(f"{WORD} {word}" for word in gone)) == []
            assert indexes_holding(store, *gone) == []
        b.reopen_all()
        assert seen(b) == after
    return done
