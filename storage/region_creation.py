"""Making the directory of an empty region."""

from __future__ import annotations

from pathlib import Path

from neverforget.storage.backup import LOG_DIRECTORY
from neverforget.storage.epoch import EPOCH_FILE, create_epoch
from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import Identity, check_identity, write_identity
from neverforget.storage.log import Log
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, base_of


def create_region(
    fs: FileSystem, directory: Path, identity: Identity, options: RegionOptions | None
) -> None:
    """See ``Region.create``. ``identity``: of the region to make, with a new log id."""
    options = options or RegionOptions()
    try:
        check_identity(
            fs,
            directory,
            store_id=identity.store_id,
            what=identity.what,
            partition=identity.partition,
        )
        return
    except NotFound:
        pass  # none there yet
    fs.make_directory(directory)
    fs.sync_directory(directory.parent)
    _clear_unfinished(fs, directory / LOG_DIRECTORY)
    Log.create(fs, directory / LOG_DIRECTORY, log_id=identity.log_id, options=options.log)
    create_epoch(fs, directory / EPOCH_FILE)
    write_identity(fs, directory, identity)  # last: what has none was never finished


def _clear_unfinished(fs: FileSystem, log_directory: Path) -> None:
    """Take away what an interrupted creation left. A log with anything in it is never that."""
    if not fs.exists(log_directory):
        return
    names = fs.list_directory(log_directory)
    for name in names:
        path = log_directory / name
        if base_of(name) is not None:
            file = fs.open(path, read_only=True)
            try:
                used = any(file.pread(file.size(), SEGMENT_HEADER_BYTES))
            finally:
                file.close()
            if used or len(names) > 2:
                raise Corrupt(
                    f"{log_directory} holds a log, but its region has no identity; put the "
                    "IDENTITY file back from a backup",
                    file=str(path),
                )
        elif not name.endswith(".tmp"):
            raise Corrupt(f"{path} does not belong into a new log", file=str(path))
        fs.unlink(path)
