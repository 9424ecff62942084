"""What the tests of the storage share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """What was synced is a matter of the file system that crashes, and of the fault tests."""
    path = memory_path / "tmp"
    path.mkdir()
    return path
