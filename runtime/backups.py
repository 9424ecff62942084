"""Backups: directories with a copy of a store, and a file BACKUP that says of when and how much.

A backup is a store, and opens as one. Until then nothing in it changes, and it can be checked as it
is, also where it must not be written; ``BACKUP`` tells whether somebody has opened it since. It has
no replica: what it ships would be another history under the same name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from neverforget.runtime.config import longterm_directory
from neverforget.runtime.gathering import Copied
from neverforget.runtime.status_values import Finding, VerifyReport, finding
from neverforget.runtime.store_directory import (
    LONGTERM_LOG,
    RESTORING,
    partition_log,
    region_directory,
)
from neverforget.runtime.store_path import real_path, typed_errors
from neverforget.runtime.times import from_us
from neverforget.storage.atomic_file import write_atomic, write_checked
from neverforget.storage.clock import SystemClock
from neverforget.storage.copy_verification import verify_copy
from neverforget.storage.durable_directory import make_durable_directory
from neverforget.storage.epoch import EPOCH_FILE, read_epoch
from neverforget.storage.errors import NotFound
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import IDENTITY_FILE, store_identity, write_identity
from neverforget.storage.versioned_file import read_versioned

BACKUP_FILE = "BACKUP"
_VERSION = 1


class _Part(Struct, frozen=True):
    log: str
    epoch: int
    durable: int
    bytes: int


class _Made(Struct, frozen=True):
    store_id: str
    at_us: int
    parts: tuple[_Part, ...]
    version: int = _VERSION


class BackupInfo(Struct, frozen=True):
    """``at``: when it was complete. ``bytes``: what was copied. ``opened``: it was opened as a
    store since, and may hold more.
    """

    path: str
    store_id: str
    at: datetime
    partitions: int
    bytes: int
    opened: bool


def begin_backup(target: Path) -> None:
    """Until ``end_backup`` nobody takes what is in ``target``, a new or empty directory, for a
    store."""
    fs = LocalFileSystem()
    make_durable_directory(fs, target)
    write_atomic(fs, target / RESTORING, b"a backup that is not complete\n")


def end_backup(target: Path, store_id: str, copied: Sequence[Copied]) -> None:
    """Every region is complete: it is a backup and a store. Durable when it returns."""
    fs = LocalFileSystem()
    parts = []
    for number, part in enumerate(copied):
        last = number + 1 == len(copied)
        log = LONGTERM_LOG if last else partition_log(number)
        epoch = read_epoch(fs, _directory(target, log) / EPOCH_FILE)
        parts.append(_Part(log, epoch, part.durable, part.bytes))
    made = _Made(store_id, SystemClock().now_us(), tuple(parts))
    content = msgspec.json.format(msgspec.json.encode(made), indent=1)
    write_checked(fs, target / BACKUP_FILE, content + b"\n")
    write_identity(fs, target, store_identity(store_id))
    fs.unlink(target / RESTORING)
    fs.sync_directory(target)


def backups(directory: str | os.PathLike[str]) -> tuple[BackupInfo, ...]:
    """The complete backups in ``directory``: itself, or those folders of it that are one; the
    newest last. Raises NotFound where there is no such directory, Corrupt where what one says of
    itself is damaged.
    """
    path = real_path(directory, "directory")
    with typed_errors(path):
        if not path.is_dir():
            raise NotFound(f"there is no directory {path}")
        folders = [path, *(each for each in sorted(path.iterdir()) if each.is_dir())]
        found = [_info(each) for each in folders if _is_one(each)]
    return tuple(sorted(found, key=lambda info: info.at))


def verify_backup(directory: str | os.PathLike[str]) -> VerifyReport:
    """Read every record of a backup and check every checksum, without opening it as a store:
    nothing in it is written. Raises NotFound where there is none, or it was opened as a store
    since: then ``open`` and ``verify`` that.
    """
    path = real_path(directory, "directory")
    with typed_errors(path):
        if not _is_one(path):
            raise NotFound(f"there is no complete backup in {path}")
        made = _read(path)
        if _is_opened(path, made):
            raise NotFound(f"{path} was opened as a store since it was made; verify that store")
        return _verify(path, made)


def is_untouched_backup(path: Path) -> bool:
    """``path`` is a complete backup that nobody has opened as a store."""
    with typed_errors(path):
        return _is_one(path) and not _is_opened(path, _read(path))


def _is_one(path: Path) -> bool:
    complete = (path / IDENTITY_FILE).exists() and not (path / RESTORING).exists()
    return complete and (path / BACKUP_FILE).exists()


def _read(path: Path) -> _Made:
    return read_versioned(LocalFileSystem(), path / BACKUP_FILE, _Made, _VERSION, "is damaged")


def _directory(path: Path, log: str) -> Path:
    if log == LONGTERM_LOG:
        return longterm_directory(path)
    return region_directory(path, int(log.rpartition("-")[2]))


def _is_opened(path: Path, made: _Made) -> bool:
    fs = LocalFileSystem()
    return any(
        read_epoch(fs, _directory(path, part.log) / EPOCH_FILE) > part.epoch for part in made.parts
    )


def _info(path: Path) -> BackupInfo:
    made = _read(path)
    n_bytes = sum(part.bytes for part in made.parts)
    return BackupInfo(
        str(path), made.store_id, from_us(made.at_us), len(made.parts) - 1, n_bytes,
        _is_opened(path, made),
    )  # fmt: skip


def _verify(path: Path, made: _Made) -> VerifyReport:
    findings: list[Finding] = []
    records = read = 0
    for part in made.parts:
        partition = None if part.log == LONGTERM_LOG else int(part.log.rpartition("-")[2])
        directory = _directory(path, part.log)
        checked = verify_copy(
            LocalFileSystem(), directory, store_id=made.store_id, partition=partition,
            durable=part.durable,
        )  # fmt: skip
        findings += [finding(partition, found) for found in checked.findings]
        records, read = records + checked.records, read + checked.bytes
    lost = any(found.severity == "error" for found in findings)
    return VerifyReport(not lost, tuple(findings), records, read)
