"""Taking a folder of indexes away that a thread of tantivy may still look at."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

TRIES = 200


def remove_indexes(path: Path) -> None:
    """A reader's watcher reads what was written last, for which it makes a lock file, a moment
    after its index was closed: then the folder is not empty, and is taken away again.
    """
    pause = threading.Event()
    for _ in range(TRIES):
        try:
            shutil.rmtree(path)
        except OSError:
            pause.wait(0.02)
        else:
            return
    shutil.rmtree(path)
