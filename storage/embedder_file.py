"""``EMBEDDER``: which embedder a long-term store has, and where what is derived by it stands.

It is a fixed setting of the store, and this file in its directory is its truth. The vectors of two
embedders cannot be compared, so a store is opened with the embedder it has; to change it, a second
derived folder is built beside the first and the store goes over to it by rewriting this file:

    folder = free_folder(fs, directory, held)       # "derived-2"; build it there
    write_embedder(fs, directory, EmbedderFile(name, model, dimension, folder))
    collect_folders(fs, directory, folder)          # the old one, once nobody reads it

A model that is asked over a network tells its id and dimension when it first answers: until then
they are None and 0, and the store has words only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.errors import Corrupt, EmbedderMismatch, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.versioned_file import read_versioned

EMBEDDER_FILE: Final = "EMBEDDER"
EMBEDDER_VERSION: Final = 1
FIRST_FOLDER: Final = "derived-1"

_FOLDER: Final = re.compile(r"derived-([1-9][0-9]*)")


class EmbedderFile(msgspec.Struct, frozen=True):
    """``name``: the setting ("minilm", "none", "openai:…"). ``model`` and ``dimension``: what its
    vectors are of; None and 0 while that is not known, and for a store without an embedder.
    ``folder``: the derived files, a name in the same directory.
    """

    name: str
    model: str | None = None
    dimension: int = 0
    folder: str = FIRST_FOLDER
    version: int = EMBEDDER_VERSION


def write_embedder(fs: FileSystem, directory: Path, held: EmbedderFile) -> None:
    """Replace the file. When it returns the new one survives power loss, when it raises
    (OutOfSpace, OSError) the old one is there. At creation: before the region's IDENTITY.
    """
    assert held.name and _FOLDER.fullmatch(held.folder), held
    assert (held.model is None) == (held.dimension == 0), held
    write_checked(fs, directory / EMBEDDER_FILE, msgspec.json.encode(held) + b"\n")


def read_embedder(fs: FileSystem, directory: Path) -> EmbedderFile:
    """NotFound, Corrupt, or UnsupportedFormat of a newer version."""
    path = directory / EMBEDDER_FILE
    try:
        held = read_versioned(fs, path, EmbedderFile, EMBEDDER_VERSION, "names no embedder")
    except NotFound as error:
        raise NotFound(
            f"{path} is not there: which embedder this store has is unknown; put the file back "
            "from a backup"
        ) from error
    if not _FOLDER.fullmatch(held.folder):
        raise Corrupt(f"{path} names {held.folder!r}, which is no folder of it", file=str(path))
    return held


def check_embedder(held: EmbedderFile, name: str) -> None:
    """EmbedderMismatch unless the store has the embedder of this name."""
    if held.name != name:
        raise EmbedderMismatch(
            f"this store has the embedder {held.name!r}, not {name!r}; open it with the former, "
            "or change it with reindex"
        )


def check_model(held: EmbedderFile, model: str, dimension: int) -> EmbedderFile:
    """What the file is to say now that the embedder has said what it is. EmbedderMismatch when the
    stored vectors are of another model: the name stayed the same and what answers to it did not.
    """
    if held.model is None:
        return msgspec.structs.replace(held, model=model, dimension=dimension)
    if (held.model, held.dimension) != (model, dimension):
        raise EmbedderMismatch(
            f"this store holds vectors of {held.model} ({held.dimension} dimensions), and "
            f"{held.name!r} is {model} ({dimension}) now; bring back the former, or reindex"
        )
    return held


def free_folder(fs: FileSystem, directory: Path, held: EmbedderFile) -> str:
    """A name for a second derived folder, above all that are or were begun there."""
    numbers = [_number(name) for name in (held.folder, *_folders(fs, directory))]
    return f"derived-{max(numbers) + 1}"


def collect_folders(fs: FileSystem, directory: Path, keep: str) -> list[str]:
    """Remove every derived folder but ``keep``: what a reindex has replaced, or did not finish.
    Returns their names. Nobody may have one open.
    """
    gone = [name for name in _folders(fs, directory) if name != keep]
    for name in gone:
        _remove(fs, directory / name)
    if gone:
        fs.sync_directory(directory)
    return gone


def _folders(fs: FileSystem, directory: Path) -> list[str]:
    return [name for name in fs.list_directory(directory) if _FOLDER.fullmatch(name)]


def _number(name: str) -> int:
    found = _FOLDER.fullmatch(name)
    assert found is not None, name
    return int(found[1])


def _remove(fs: FileSystem, path: Path) -> None:
    for name in fs.list_directory(path):
        inside = path / name
        if fs.is_directory(inside):
            _remove(fs, inside)
        else:
            fs.unlink(inside)
    fs.remove_directory(path)
