"""A store's directory: making one, and making sure that one is what it should be.

Called only under the directory's LOCK. Creation has one moment in which the store begins to exist,
the rename of the finished ``regions`` folder, which holds the ``longterm`` one then; that is moved
out of it and IDENTITY written, also by a later owner if the first one died in between. So a
directory never looks like an empty store because something of it is missing.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.runtime.config import (
    LONGTERM_FOLDER,
    STORE_TOML,
    Config,
    effective,
    longterm_directory,
)
from neverforget.runtime.endpoint import ENDPOINT_FILE, RUN_FOLDER
from neverforget.runtime.object_checks import OBJECT
from neverforget.runtime.stored_settings import keep_replica, read_stored, store_toml
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.directory_lock import LOCK_FILE
from neverforget.storage.durable_directory import make_durable_directory
from neverforget.storage.errors import (
    Corrupt,
    InvalidArgument,
    NotFound,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.identity import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    longterm_identity,
    region_identity,
    store_identity,
    write_identity,
)
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, segment_path

if TYPE_CHECKING:
    from neverforget.storage.region_options import RegionOptions

log = logging.getLogger(__name__)
REGIONS_FOLDER = "regions"
SHIPPED_FILE = "SHIPPED"  # as ``storage/shipping_mark.py`` has it, which loads much
DEPLOYED_FILE = "DEPLOYED"  # as ``deployed_disk.py`` has it, which imports this
HOST_LOG = "host.log"
START_LOCK = "START"
_UNFINISHED_FOLDER = "regions.unfinished"
LONGTERM_LOG = "longterm-0"
RESTORING = "RESTORING"  # holds the id of the store that is being made again; see ``restoring``

# What may stand in a directory that becomes a store: our own traces, and settings made beforehand.
_NO_OBSTACLE = {
    LOCK_FILE, ENDPOINT_FILE, RUN_FOLDER, HOST_LOG, START_LOCK, STORE_TOML, _UNFINISHED_FOLDER,
    f"{STORE_TOML}.tmp", f"{IDENTITY_FILE}.tmp", f"{ENDPOINT_FILE}.tmp", "lost+found",
    RESTORING, f"{RESTORING}.tmp",
}  # fmt: skip


@dataclass(frozen=True)
class StoreDirectory:
    path: Path
    store_id: str
    config: Config

    def region(self, partition: int) -> Path:
        return region_directory(self.path, partition)

    @property
    def longterm(self) -> Path:
        return longterm_directory(self.path)


def region_directory(path: Path, partition: int) -> Path:
    """Of the store at ``path``."""
    return path / REGIONS_FOLDER / f"p{partition}"


def partition_log(partition: int) -> str:
    """The name of its log in a replica."""
    return f"partition-{partition}"


def exists(path: Path) -> bool:
    """A store was begun here, as far as its names tell."""
    return (path / IDENTITY_FILE).exists() or (path / REGIONS_FOLDER).exists()


def has_records(region: Path) -> bool:
    """Anything was ever written to this region, or it is not what it should be."""
    try:
        with segment_path(region / "log", 0).open("rb") as file:
            file.seek(SEGMENT_HEADER_BYTES)
            return file.read(1) != b"\0"
    except OSError:
        return True


def make_directory(path: Path, *, create: bool) -> None:
    """``path`` as a directory. NotFound when there is no store and none is to be made."""
    if not create and not exists(path):
        raise NotFound(f"there is no store at {path}")
    try:
        make_durable_directory(LocalFileSystem(), path)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgument(
            f"{path} cannot be a directory ({error.strerror}); give a path of its own to the store"
        ) from error


def prepare(
    fs: FileSystem,
    path: Path,
    asked: Config,
    *,
    create: bool = True,
    store_id: str | None = None,
    restoring: bool = False,
) -> StoreDirectory:
    """The store at ``path``, made if nothing is there and ``create`` says so.

    ``store_id``: the one it must be. ``restoring``: by ``restore``, which is not through yet.
    Raises NotFound, UnsupportedFormat (another store, a newer version, other files), Corrupt,
    InvalidArgument (settings that do not fit).
    """
    if not restoring and fs.exists(path / RESTORING):
        raise UnsupportedFormat(
            f"{path} was not restored, or backed up, to the end; run neverforget restore on it "
            "again, or make the backup anew in an empty folder"
        )
    if fs.exists(path / IDENTITY_FILE):
        # Before its settings: a newer version may have others.
        check_identity(fs, path, store_id=store_id, what="store")
    stored = read_stored(path)
    config = effective(asked, stored)
    if not exists(path):
        if not create:
            raise NotFound(f"there is no store at {path}")
        refuse_foreign(fs, path)
        _make(fs, path, config)
    elif not fs.exists(path / IDENTITY_FILE):
        _finish(fs, path)
    identity = check_identity(fs, path, store_id=store_id, what="store")
    _check_partitions(fs, path, config, stored)
    if fs.exists(path / DEPLOYED_FILE):
        log.warning(
            "%s is a disk of a deployed store: what stands on its other disks is not here; "
            "ray:NAME is the whole store",
            path,
        )
    if config.replica is not None:
        from neverforget.runtime.replica_settings import publish

        publish(path / REGIONS_FOLDER, identity.store_id, config)
        keep_replica(path, config, stored)
    elif any((path / REGIONS_FOLDER).glob(f"*/{SHIPPED_FILE}")):
        log.warning("%s was shipped to a replica before; it is opened without one now", path)
    return StoreDirectory(path, identity.store_id, config)


def refuse_foreign(fs: FileSystem, path: Path) -> None:
    others = sorted(set(fs.list_directory(path)) - _NO_OBSTACLE)
    if IDENTITY_FILE in others:
        raise UnsupportedFormat(
            f"{path} is a neverforget directory already; give a new or empty folder"
        )
    if others:
        raise UnsupportedFormat(
            f"{path} is no neverforget store and not empty ({', '.join(others[:3])}"
            f"{', …' if len(others) > 3 else ''}); give a path of its own to the store"
        )


def _make(fs: FileSystem, path: Path, config: Config) -> None:
    if isinstance(config.embedder, str) and config.embedder.startswith(OBJECT):
        raise InvalidArgument(
            f"embedder={config.embedder!r} names an object; pass the object itself, in the process "
            "that hosts the store"
        )
    store_id = str(uuid.uuid4())

    def identity(log: str) -> Identity:
        if log == LONGTERM_LOG:
            return longterm_identity(store_id, 0)
        return region_identity(store_id, int(log.rpartition("-")[2]))

    make_again(fs, path, config, store_id, identity)


def make_again(
    fs: FileSystem,
    path: Path,
    config: Config,
    store_id: str,
    identity: Callable[[str], Identity],
) -> None:
    """Make the directory of that store, unless it stands: empty regions with the identity that is
    told for each log, "partition-0" and so on. Goes on where a crash interrupted it.
    """
    from neverforget.storage.region_creation import create_region
    from neverforget.storage.region_options import RegionOptions

    if exists(path):
        return
    unfinished = path / _UNFINISHED_FOLDER
    if fs.exists(unfinished):  # its maker died; it never was a store
        shutil.rmtree(unfinished)
    options = RegionOptions(
        segment_bytes=config.segment_bytes,
        first_segment_bytes=min(config.segment_bytes, RegionOptions().first_segment_bytes),
    )
    for partition in range(config.partitions):
        region = unfinished / f"p{partition}"
        fs.make_directory(region)
        create_region(fs, region, identity(partition_log(partition)), options)
    _make_longterm(fs, unfinished, identity(LONGTERM_LOG), config.embedder_name, options)
    fs.sync_directory(unfinished)
    write_atomic(fs, path / STORE_TOML, store_toml(config))
    fs.rename(unfinished, path / REGIONS_FOLDER)
    _move_longterm(fs, path)
    write_identity(fs, path, store_identity(store_id))


def _make_longterm(
    fs: FileSystem, unfinished: Path, identity: Identity, embedder: str, options: RegionOptions
) -> None:
    from neverforget.storage.embedder_file import EmbedderFile, write_embedder
    from neverforget.storage.region_creation import create_region

    directory = longterm_directory(unfinished)
    fs.make_directory(directory.parent)
    fs.make_directory(directory)
    write_embedder(fs, directory, EmbedderFile(embedder))
    create_region(fs, directory, identity, options)
    fs.sync_directory(directory.parent)


def _move_longterm(fs: FileSystem, path: Path) -> None:
    """To its place beside the regions, unless it is there."""
    made = path / REGIONS_FOLDER / LONGTERM_FOLDER
    if fs.exists(made):
        fs.rename(made, path / LONGTERM_FOLDER)
        fs.sync_directory(path / REGIONS_FOLDER)
    fs.sync_directory(path)


def _finish(fs: FileSystem, path: Path) -> None:
    """The regions stand and IDENTITY does not: take the id that they all carry."""
    _move_longterm(fs, path)
    ids = set()
    for name in _regions(fs, path):
        folder = path / REGIONS_FOLDER / name
        found = check_identity(fs, folder, what="region", partition=int(name[1:]))
        ids.add(found.store_id)
    if len(ids) != 1:
        raise Corrupt(
            f"{path} has lost its {IDENTITY_FILE} and its regions belong to {len(ids)} stores; "
            "restore it from a backup",
            file=str(path / IDENTITY_FILE),
        )
    write_identity(fs, path, store_identity(ids.pop()))


def _check_partitions(fs: FileSystem, path: Path, config: Config, stored: dict[str, Any]) -> None:
    """Sessions are found by the number of partitions: another number would hide some of them. A
    region that is missing is its owner's to report."""
    numbers = [int(name[1:]) for name in _regions(fs, path)]
    told = "partitions" in stored
    if (told and max(numbers, default=-1) < config.partitions) or (
        sorted(numbers) == list(range(config.partitions))
    ):
        return
    raise InvalidArgument(
        f"{path} has the regions {sorted(numbers)}, but {path / STORE_TOML} "
        + (f"says partitions = {config.partitions}" if told else "does not say how many")
        + "; restore that file from a backup"
    )


def _regions(fs: FileSystem, path: Path) -> list[str]:
    folder = path / REGIONS_FOLDER
    if not fs.exists(folder):
        return []
    return [n for n in fs.list_directory(folder) if n[:1] == "p" and n[1:].isdecimal()]
