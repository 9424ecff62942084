"""``verify --remote``: every object of a store's replica, read and compared with the logs here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.runtime.config import longterm_directory
from neverforget.runtime.status_values import Finding, VerifyReport, finding
from neverforget.runtime.store_directory import LONGTERM_LOG, region_directory
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.object_store import open_object_store
from neverforget.storage.shipping_verification import RemoteVerification

if TYPE_CHECKING:
    from neverforget.runtime.status_values import Status
    from neverforget.runtime.store import Store


def verify_remote(store: Store, local: VerifyReport) -> tuple[VerifyReport, int]:
    """``local`` with what was found in the objects, and how many there are. Raises InvalidArgument
    for a store without a replica, Unavailable where that does not answer.
    """
    url, status = store.config.replica, store.status()
    if url is None:
        raise InvalidArgument("this store has no replica; open it with replica=... to have one")
    objects, fs = open_object_store(url), LocalFileSystem()
    findings: list[Finding] = list(local.findings)
    count, read = 0, local.bytes
    for partition, log, directory, durable, shipped in _logs(status):
        checked = RemoteVerification(fs, directory, objects, log, durable=durable, shipped=shipped)
        findings += [finding(partition, found) for found in checked]
        count += checked.objects
        read += checked.bytes
    lost = any(found.severity == "error" for found in findings)
    return VerifyReport(not lost, tuple(findings), local.records, read), count


def _logs(status: Status) -> list[tuple[int | None, str, Path, int, int]]:
    """(partition, name, directory, durable, shipped) of each."""
    path = Path(status.path)
    found: list[tuple[int | None, str, Path, int, int]] = []
    for owner in status.owners:
        shipped = 0 if owner.replica is None else owner.replica.shipped_bytes
        directory = region_directory(path, owner.partition)
        log = f"partition-{owner.partition}"
        found.append((owner.partition, log, directory, owner.durable_bytes, shipped))
    learned = status.longterm
    shipped = 0 if learned.replica is None else learned.replica.shipped_bytes
    durable = learned.durable_bytes
    return [*found, (None, LONGTERM_LOG, longterm_directory(path), durable, shipped)]
