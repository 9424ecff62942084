"""Appenders one after the other, each in a child that may die; see ``forked.py``.

    python -m tests.faults.many_appenders

A line is ``OUTPUT DIRECTORY STORE_ID [options]``: an appender that says to OUTPUT what it would say
to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tests.faults import appender
from tests.faults.forked import main


def prepared(line: str) -> Callable[[], object]:
    output, *arguments = line.split()

    def carry_out() -> None:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
        code = appender.main(arguments)
        assert code == 0, code

    return carry_out


if __name__ == "__main__":
    sys.exit(main(prepared))
