"""Making the directory that a store, a part of one, or a backup begins with."""

from __future__ import annotations

from pathlib import Path

from neverforget.storage.filesystem import FileSystem


def make_durable_directory(fs: FileSystem, path: Path) -> None:
    """``path``, with the parents that are missing: their names survive power loss when this
    returns. One that is there already is left alone. Raises OSError.

    Without it everything in a new directory may be synced, and be found by nobody after a power
    loss.
    """
    if fs.exists(path):
        if not fs.is_directory(path):
            fs.make_directory(path)  # raises what is to be said of it
        return
    there = next(folder for folder in path.parents if fs.exists(folder))
    fs.make_directory(path)
    for folder in path.parents:
        fs.sync_directory(folder)
        if folder == there:
            return
