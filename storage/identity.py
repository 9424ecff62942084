"""Who a directory belongs to. Every store and every region carries an IDENTITY file, written once,
at creation.

An owner checks it before it touches anything else: an empty disk mounted at the wrong place, the
directory of another store or partition, or one written by a newer version must never pass for a
fresh start.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Literal

import msgspec

from neverforget.storage.atomic_file import read_checked, write_checked
from neverforget.storage.errors import Corrupt, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem

IDENTITY_FILE = "IDENTITY"
FORMAT_VERSION = 1


What = Literal["store", "region", "longterm"]


class Identity(msgspec.Struct, frozen=True):
    """``log_id`` seeds the header checksums of a region's log: random, never zero, 0 only for a
    store.
    """

    store_id: str
    what: What
    partition: int = -1
    log_id: int = 0
    format_version: int = FORMAT_VERSION


def store_identity(store_id: str) -> Identity:
    return Identity(store_id, "store")


def region_identity(store_id: str, partition: int) -> Identity:
    """A new region's identity, with a log id of its own."""
    return Identity(store_id, "region", partition, secrets.randbits(64) | 1)


def longterm_identity(store_id: str, shard: int) -> Identity:
    """A new long-term region's identity, with a log id of its own."""
    return Identity(store_id, "longterm", shard, secrets.randbits(64) | 1)


def write_identity(fs: FileSystem, directory: Path, identity: Identity) -> None:
    """Durable when it returns. Call it last in the creation of a directory: what has no identity
    was never finished.
    """
    write_checked(fs, directory / IDENTITY_FILE, msgspec.json.encode(identity) + b"\n")


def read_identity(fs: FileSystem, directory: Path) -> Identity:
    """NotFound: no identity here. Corrupt: unreadable. UnsupportedFormat: of a newer version."""
    path = directory / IDENTITY_FILE
    try:
        content = read_checked(fs, path)
    except NotFound as error:
        raise NotFound(
            f"{directory} holds no {IDENTITY_FILE}: it is no neverforget directory, or its disk "
            "is not mounted"
        ) from error
    # The version alone first: a newer one may have other fields.
    try:
        version = msgspec.json.decode(content, type=_Version).format_version
        if version > FORMAT_VERSION:
            raise UnsupportedFormat(
                f"{directory} was written by format version {version}, this program knows up to "
                f"{FORMAT_VERSION}; open it with the newer program"
            )
        return msgspec.json.decode(content, type=Identity)
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"{path} is not an identity: {error}", file=str(path), offset=0, bytes=len(content)
        ) from error


def check_identity(
    fs: FileSystem,
    directory: Path,
    *,
    store_id: str | None = None,
    what: What,
    partition: int = -1,
) -> Identity:
    """The identity of ``directory``, which must be the expected one, else UnsupportedFormat.
    ``store_id`` None: any store. Also raises what ``read_identity`` raises.
    """
    found = read_identity(fs, directory)
    wanted = (found.store_id if store_id is None else store_id, what, partition)
    if (found.store_id, found.what, found.partition) != wanted:
        raise UnsupportedFormat(
            f"{directory} belongs to {_named(found.store_id, found.what, found.partition)}, "
            f"expected {_named(*wanted)}; mount the right directory there"
        )
    return found


def _named(store_id: str, what: str, partition: int) -> str:
    if what == "store":
        return f"store {store_id}"
    part = "partition" if what == "region" else "long-term shard"
    return f"{part} {partition} of store {store_id}"


class _Version(msgspec.Struct):
    format_version: int
