"""What the tests of partitions share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.actors.regions import Owned, disk, own
from tests.fakes.crash_filesystem import Killed


@pytest.fixture
def owned() -> Iterator[Owned]:
    """A partition that serves. Closed afterwards."""
    found = own(disk())
    assert found.partition.state == "serving"
    yield found
    with contextlib.suppress(Killed):  # the test may have cut the power
        found.partition.close()
