"""What the tests of owners share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.actors import longterm_owners
from tests.actors.longterm_owners import OwnedLongTerm
from tests.actors.regions import Owned, disk, own
from tests.fakes.crash_filesystem import Killed


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """What owners make of a disk's answers is tested here, not the disk."""
    path = memory_path / "tmp"
    path.mkdir()
    return path


@pytest.fixture
def owned() -> Iterator[Owned]:
    """A partition that serves. Closed afterwards."""
    found = own(disk())
    assert found.partition.state == "serving"
    yield found
    with contextlib.suppress(Killed):  # the test may have cut the power
        found.partition.close()


class Owning(Protocol):
    def __call__(self, embedder: Any = None, **how: Any) -> OwnedLongTerm: ...


@pytest.fixture
def owning(tmp_path: Path) -> Iterator[Owning]:
    """Opens long-term owners of one store, one after the other; see ``longterm_owners.own``. The
    last one is closed afterwards, others by the test.
    """
    directory = longterm_owners.create(tmp_path / "0")
    opened: list[OwnedLongTerm] = []

    def open_one(embedder: Any = None, **how: Any) -> OwnedLongTerm:
        opened.append(longterm_owners.own(directory, embedder, **how))
        return opened[-1]

    yield open_one
    for owned in opened[-1:]:
        owned.owner.close()


@pytest.fixture
def longterm(owning: Owning) -> OwnedLongTerm:
    """A long-term owner that serves, with an embedder that hashes words."""
    return owning()
