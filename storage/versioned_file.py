"""Small checked files of one struct that says which version it has: manifests, states, settings."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from neverforget.storage.atomic_file import read_checked
from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem

T = TypeVar("T")


class _Version(msgspec.Struct):
    version: int = 1


def read_versioned(fs: FileSystem, path: Path, kind: type[T], known: int, otherwise: str) -> T:
    """The struct that stands in a checked file as JSON. NotFound; UnsupportedFormat of a version
    above ``known``; Corrupt, which says ``otherwise`` of the path where it holds something else.
    """
    return decode_versioned(read_checked(fs, path), str(path), kind, known, otherwise)


def decode_versioned(content: bytes, name: str, kind: type[T], known: int, otherwise: str) -> T:
    """As ``read_versioned`` of what was read already, from what ``name`` names for people."""
    try:
        # The version alone first: a newer one may have other fields.
        version = msgspec.json.decode(content, type=_Version).version
        if version > known:
            raise UnsupportedFormat(
                f"{name} has version {version}, this program knows {known}; open it with the "
                "newer program"
            )
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{name} {otherwise}: {error}", file=name) from error
