"""The pytest plugin: ``nf_store``, there wherever neverforget is installed beside pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.runtime.store import Store
from neverforget.runtime.testing import store


@pytest.fixture
def nf_store(tmp_path: Path) -> Iterator[Store]:
    """An empty neverforget store, inline, in the test's own directory; closed afterwards."""
    with store(tmp_path / "neverforget") as opened:
        yield opened
