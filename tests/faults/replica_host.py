"""A host without Ray whose owners are killed around a put to their replica, when told to.

As a program, with the path of a store and that of a file. While the file holds "before" or "after",
the next put of a run kills the process in front of it, or between it and the acknowledgement.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from neverforget.storage.object_folder import FolderStore
from neverforget.storage.shipping_object import ObjectKind, decode_header
from tests.fakes.plain_host import PlainHost


def arm(told: Path) -> None:
    put_new = FolderStore.put_new

    def put(self: FolderStore, key: str, data: bytes, *, behind: str | None = None) -> bool:
        run = key[-1].isdigit() and decode_header(data).kind == ObjectKind.RUN
        when = told.read_text() if run and told.exists() else ""
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = put_new(self, key, data, behind=behind)
        if when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    FolderStore.put_new = put  # type: ignore[method-assign]


if __name__ == "__main__":
    arm(Path(sys.argv[2]))
    host = PlainHost(Path(sys.argv[1]))
    print("serving", flush=True)
    sys.stdin.buffer.read()
    host.close()
