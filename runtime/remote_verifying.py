"""``verify(remote=True)``: every object of a store's replica, read and compared with the logs here.

Of a deployed store the logs lie on other nodes: there the objects are checked by themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.runtime.config import longterm_directory
from neverforget.runtime.status_values import Finding, VerifyReport, finding

if TYPE_CHECKING:
    from neverforget.runtime.status_values import Status
    from neverforget.storage.identity import Identity
    from neverforget.storage.object_store import ObjectStore


def with_replica(local: VerifyReport, status: Status, url: str) -> VerifyReport:
    """``local`` with what was found in the objects. Blocks. Raises Unavailable where the replica
    does not answer.
    """
    from neverforget.storage.filesystem import LocalFileSystem
    from neverforget.storage.object_store import open_object_store
    from neverforget.storage.shipping_verification import RemoteVerification

    objects, fs = open_object_store(url), LocalFileSystem()
    findings: list[Finding] = list(local.findings)
    count, read = 0, local.bytes
    for partition, log, directory, durable, shipped in _logs(status):
        identity = _identity(objects, log, directory, status.store_id)
        checked = RemoteVerification(
            fs, directory, identity, objects, log, durable=durable, shipped=shipped
        )
        findings += [finding(partition, found) for found in checked]
        count += checked.objects
        read += checked.bytes
    lost = any(found.severity == "error" for found in findings)
    return VerifyReport(not lost, tuple(findings), local.records, read, count)


def _identity(objects: ObjectStore, log: str, directory: Path | None, store_id: str) -> Identity:
    from neverforget.storage.filesystem import LocalFileSystem
    from neverforget.storage.identity import read_identity
    from neverforget.storage.replica_identity import identity_in, new_identity

    if directory is not None:
        return read_identity(LocalFileSystem(), directory)
    return identity_in(objects, log, store_id) or new_identity(log, store_id)


def _logs(status: Status) -> list[tuple[int | None, str, Path | None, int, int]]:
    """(partition, name, directory where it is here, durable, shipped) of each."""
    from neverforget.runtime.store_directory import LONGTERM_LOG, partition_log, region_directory

    path = Path(status.path)
    here = path.is_absolute()
    found: list[tuple[int | None, str, Path | None, int, int]] = []
    for owner in status.owners:
        number = owner.partition
        shipped = 0 if owner.replica is None else owner.replica.shipped_bytes
        directory = region_directory(path, number) if here else None
        found.append((number, partition_log(number), directory, owner.durable_bytes, shipped))
    learned = status.longterm
    shipped = 0 if learned.replica is None else learned.replica.shipped_bytes
    directory = longterm_directory(path) if here else None
    return [*found, (None, LONGTERM_LOG, directory, learned.durable_bytes, shipped)]
