"""A process that lives on in a long-term region, each time in a child that may die.

    python -m tests.faults.worker

A line is ``TOLD DIRECTORY FIRST LAST``: the region there is opened, and the requests of a ``Life``
from FIRST to LAST are made; ``done NUMBER`` is written to TOLD for each that is durable. See
``forked.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults.forked import main
from tests.storage.small_longterm import LongTermBench
from tests.storage.working_life import Life


def prepared(line: str) -> Callable[[], object]:
    told, directory, first, last = line.split()
    output = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(number: int) -> None:
        os.write(output, f"done {number}\n".encode())

    def carry_out() -> None:
        b = LongTermBench(Path(directory))
        life = Life()
        life.done = int(first) - 1
        life.live(b, int(last), tell)
        b.region.close()

    return carry_out


if __name__ == "__main__":
    sys.exit(main(prepared))
