"""A consistent copy of what is durable, for somebody on another machine: the list of its files, and
their bytes piece by piece.

The owner keeps nothing between two questions. Who copies asks for the list again at the end: where
``stamp`` is another one, an erasure came between, or another owner, and it begins again. What lies
below ``durable`` does not change otherwise.
"""

from __future__ import annotations

import re
from contextlib import closing

from neverforget.storage.backup import LOG_DIRECTORY
from neverforget.storage.copy_list import CopyFile, CopyList
from neverforget.storage.embedder_file import EMBEDDER_FILE
from neverforget.storage.epoch import EPOCH_FILE
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.identity import IDENTITY_FILE
from neverforget.storage.log_state import LogState
from neverforget.storage.segment import SEGMENT_HEADER_BYTES
from neverforget.storage.set_aside import QUARANTINE_DIRECTORY, TORN_DIRECTORY
from neverforget.storage.side_file import side_path

PIECE_BYTES_MAX = 4 << 20
_NAME = re.compile(r"(?:log|torn|quarantine)/[0-9a-f]{16}[0-9a-z.-]*|EPOCH|IDENTITY|EMBEDDER")


def list_copy(state: LogState) -> CopyList:
    """Raises OSError."""
    fs, directory = state.fs, state.directory
    stamp, durable = (state.log.epoch, state.erasures), state.log.durable
    files: list[CopyFile] = []

    def whole(name: str) -> None:
        if fs.exists(directory / name):
            with closing(fs.open(directory / name, read_only=True)) as file:
                size = file.size()
            files.append(CopyFile(name, size, size))

    for at, segment in enumerate(state.log.segments()):
        stop = min(durable, segment.base + segment.size) - segment.base
        if at and stop <= SEGMENT_HEADER_BYTES:
            break  # nothing in it is durable yet
        wanted = max(stop, SEGMENT_HEADER_BYTES)
        files.append(CopyFile(f"{LOG_DIRECTORY}/{segment.path.name}", wanted, segment.size))
        if segment.sealed:
            whole(f"{LOG_DIRECTORY}/{side_path(segment.path.parent, segment.base).name}")
    for folder in (TORN_DIRECTORY, QUARANTINE_DIRECTORY):
        if fs.exists(directory / folder):
            for name in fs.list_directory(directory / folder):
                if not name.endswith(".tmp"):
                    whole(f"{folder}/{name}")
    for name in (EMBEDDER_FILE, EPOCH_FILE, IDENTITY_FILE):
        whole(name)
    return CopyList(stamp, durable, files)


def read_piece(state: LogState, name: str, offset: int, n_bytes: int) -> bytes:
    """Fewer bytes where the file ends. Raises InvalidArgument for a name that ``list_copy`` does
    not give, OSError.
    """
    if _NAME.fullmatch(name) is None or not 0 < n_bytes <= PIECE_BYTES_MAX or offset < 0:
        raise InvalidArgument(f"{n_bytes} bytes of {name!r} at {offset} are no piece of a copy")
    with closing(state.fs.open(state.directory / name, read_only=True)) as file:
        return file.pread(n_bytes, offset)
