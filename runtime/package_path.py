"""Where this package was imported from, so that other processes import the same one."""

from __future__ import annotations

import os
from pathlib import Path

import neverforget


def python_path() -> str:
    """A PYTHONPATH that begins with the folder this package was imported from."""
    assert neverforget.__file__ is not None
    root = str(Path(neverforget.__file__).parent.parent)
    others = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != root]
    return os.pathsep.join([root, *others])
