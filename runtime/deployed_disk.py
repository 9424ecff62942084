"""A node's part of a deployed store: its folder, which stands for the disk that it is on.

``DEPLOYED`` names the disk by an id that goes where the disk goes, and holds a copy of the store's
description. Beside it stand the files of any store, for those partitions that this disk has.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from neverforget.actors.places import LONGTERM
from neverforget.runtime.config import FIXED, STORE_TOML, Config, longterm_directory
from neverforget.runtime.deployment import Description
from neverforget.runtime.store_directory import REGIONS_FOLDER
from neverforget.runtime.store_path import typed_errors
from neverforget.runtime.stored_settings import store_toml
from neverforget.storage.atomic_file import write_atomic, write_checked
from neverforget.storage.durable_directory import make_durable_directory
from neverforget.storage.errors import InvalidArgument, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.identity import (
    IDENTITY_FILE,
    check_identity,
    store_identity,
    write_identity,
)
from neverforget.storage.versioned_file import read_versioned

if TYPE_CHECKING:
    from neverforget.storage.region_options import RegionOptions

DEPLOYED_FILE = "DEPLOYED"
_VERSION = 1
_IGNORED = {"lost+found"}
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


class Disk(msgspec.Struct, frozen=True):
    """``path``: the real one, on its node. ``disk``: its id. ``description``: the copy on it.
    ``holds``: the parts whose regions were there when somebody looked, also those that were moved
    elsewhere since."""

    path: str
    disk: str
    description: Description | None = None
    holds: tuple[int, ...] = ()
    version: int = _VERSION  # of the file


def look(path: str) -> Disk:
    """On a node: the disk at ``path``, made known as one if the folder is empty. Raises
    InvalidArgument (no such place here), UnsupportedFormat (other files), Corrupt, Unavailable.
    Sent as a task."""
    expanded = os.path.expandvars(os.path.expanduser(path))
    if not os.path.isabs(expanded) or _VARIABLE.search(expanded):
        raise InvalidArgument(
            f"path is {expanded!r} on {os.uname().nodename}: set what it names in the environment "
            "of its Ray, or do not have that node offer a place"
        )
    real = Path(os.path.realpath(expanded))
    with typed_errors(real):
        return _look(real)


def _look(path: Path) -> Disk:
    fs = LocalFileSystem()
    make_durable_directory(fs, path)
    try:
        return replace(read_disk(path), holds=_regions_in(path))
    except NotFound:
        others = sorted(set(fs.list_directory(path)) - _IGNORED - {f"{DEPLOYED_FILE}.tmp"})
        if others:
            raise UnsupportedFormat(
                f"{path} on {os.uname().nodename} is not empty and no part of a deployed store "
                f"({', '.join(others[:3])}); give the deployed store a path of its own"
            ) from None
    disk = Disk(str(path), str(uuid.uuid4()))
    _write(fs, disk)
    return disk


def read_disk(path: Path) -> Disk:
    """What stands in DEPLOYED. NotFound, Corrupt, UnsupportedFormat."""
    file = path / DEPLOYED_FILE
    found = read_versioned(LocalFileSystem(), file, Disk, _VERSION, "is damaged")
    return replace(found, path=str(path), holds=())


def describe(path: str, disk: str, description: Description) -> None:
    """On a node: keep ``description``, and make the regions that this disk is to have while the
    store is being created. Durable when it returns, repeatable. Sent as a task."""
    fs, where = LocalFileSystem(), Path(path)
    found = read_disk(where)
    if found.disk != disk:
        raise UnsupportedFormat(f"{path} holds the disk {found.disk} now, not {disk}")
    held = found.description
    if held is not None and held.store_id != description.store_id:
        raise UnsupportedFormat(f"{path} is a part of store {held.store_id} already")
    if held is not None and held.version > description.version:
        return
    _write(fs, Disk(path, disk, description))
    if description.state == "creating" and disk in description.disks:
        _make(fs, where, disk, description)
    elif any(description.moved.get(place) for place in description.places_of(disk)):
        _make_room(fs, where, description)


def _regions_in(path: Path) -> tuple[int, ...]:
    """The parts that have a directory here."""
    folder = path / REGIONS_FOLDER
    names = os.listdir(folder) if folder.is_dir() else []
    found = sorted(int(name[1:]) for name in names if name[:1] == "p" and name[1:].isdecimal())
    return (*found, LONGTERM) if longterm_directory(path).is_dir() else tuple(found)


def _make_room(fs: FileSystem, path: Path, description: Description) -> None:
    """For parts that were moved here: their owners make the regions. What stands here stays."""
    for folder in (path / REGIONS_FOLDER, longterm_directory(path).parent):
        if not fs.exists(folder):
            fs.make_directory(folder)
    if not fs.exists(path / STORE_TOML):
        write_atomic(fs, path / STORE_TOML, store_toml(Config(**_fixed(description.config))))
    fs.sync_directory(path)
    if not fs.exists(path / IDENTITY_FILE):
        write_identity(fs, path, store_identity(description.store_id))


def _write(fs: FileSystem, disk: Disk) -> None:
    content = msgspec.json.format(msgspec.json.encode(replace(disk, holds=())), indent=1)
    write_checked(fs, Path(disk.path) / DEPLOYED_FILE, content + b"\n")


def _make(fs: FileSystem, path: Path, disk: str, description: Description) -> None:
    from neverforget.storage.region import Region
    from neverforget.storage.region_options import RegionOptions

    config, store_id = description.config, description.store_id
    options = RegionOptions(
        segment_bytes=config.segment_bytes,
        first_segment_bytes=min(config.segment_bytes, RegionOptions().first_segment_bytes),
    )
    fs.make_directory(path / REGIONS_FOLDER)
    for partition, where in enumerate(description.partitions):
        if where == disk:
            region = path / REGIONS_FOLDER / f"p{partition}"
            fs.make_directory(region)
            Region.create(fs, region, store_id=store_id, partition=partition, options=options)
    if description.longterm == disk:
        _make_longterm(fs, path, store_id, config, options)
    write_atomic(fs, path / STORE_TOML, store_toml(Config(**_fixed(config))))
    fs.sync_directory(path)
    write_identity(fs, path, store_identity(store_id))


def _make_longterm(
    fs: FileSystem, path: Path, store_id: str, config: Config, options: RegionOptions
) -> None:
    from neverforget.storage.embedder_file import EmbedderFile, write_embedder
    from neverforget.storage.longterm import LongTermRegion

    directory = longterm_directory(path)
    fs.make_directory(directory)
    write_embedder(fs, directory, EmbedderFile(config.embedder_name))
    LongTermRegion.create(fs, directory, store_id=store_id, options=options)
    fs.sync_directory(directory.parent)


def _fixed(config: Config) -> dict[str, Any]:
    """The host's settings come from the description, not from the folder's store.toml."""
    return {name: value for name, value in config.as_dict().items() if name in FIXED}


def check_part(path: Path, disk: str, store_id: str) -> Description:
    """The description, where ``path`` is that disk's part of that store. UnsupportedFormat,
    NotFound, Corrupt."""
    found = read_disk(path)
    description = found.description
    if found.disk != disk or description is None or description.store_id != store_id:
        raise UnsupportedFormat(f"{path} is not the part of store {store_id} on disk {disk}")
    check_identity(LocalFileSystem(), path, store_id=store_id, what="store")
    return description
