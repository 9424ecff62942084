"""A process that owns a long-term region and lives on in it, saying what is done.

    python -m tests.faults.worker DIRECTORY FIRST LAST

On standard output ``done NUMBER`` for each request of a ``Life`` that is durable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.storage.small_longterm import LongTermBench
from tests.storage.working_life import Life


def main() -> int:
    directory, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    b = LongTermBench(directory)
    life = Life()
    life.done = first - 1
    life.live(b, last, lambda number: print("done", number, flush=True))
    b.region.close()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
