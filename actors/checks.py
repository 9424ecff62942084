"""Checks of the whole log and backups: one at a time, on a thread beside the owner's loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from neverforget.actors.messages import (
    AnyReply,
    Backup,
    BackupReply,
    Verify,
    VerifyReply,
)
from neverforget.actors.ports import Pending, failure
from neverforget.storage.errors import Corrupt, NeverforgetError, Overloaded
from neverforget.storage.region import Region
from neverforget.storage.results import Finding

log = logging.getLogger(__name__)
_WAITING_MAX = 16
_FINDINGS_MAX = 10_000


class Checks:
    def __init__(self, name: str) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._waiting

    def verify(self, region: Region, pending: Pending, request: Verify) -> None:
        self._submit(pending, lambda: _verify(region, request))

    def backup(self, region: Region, pending: Pending, request: Backup) -> None:
        self._submit(pending, lambda: _backup(region, request))

    def close(self) -> None:
        self._worker.shutdown(wait=True)

    def _submit(self, pending: Pending, work: Callable[[], AnyReply]) -> None:
        with self._lock:
            if self._waiting >= _WAITING_MAX:
                error = Overloaded("too many checks and backups wait; ask again later")
                pending.reply(failure(pending.request.id, error))
                return
            self._waiting += 1
        self._worker.submit(self._do, pending, work)

    def _do(self, pending: Pending, work: Callable[[], AnyReply]) -> None:
        id = pending.request.id
        try:
            reply = work()
        except NeverforgetError as error:
            reply = failure(id, error)
        except OSError as error:
            reply = failure(id, Corrupt(f"reading or copying the log failed: {error}"))
        except Exception as error:
            log.exception("a check or backup failed")
            reply = failure(id, NeverforgetError(f"internal error: {error!r}"))
        finally:
            with self._lock:
                self._waiting -= 1
        pending.reply(reply)


def _verify(region: Region, request: Verify) -> VerifyReply:
    verification = region.verify()
    findings: list[Finding] = []
    for finding in verification:
        if len(findings) < _FINDINGS_MAX:
            findings.append(finding)
    return VerifyReply(request.id, findings, verification.records, verification.bytes)


def _backup(region: Region, request: Backup) -> BackupReply:
    size, durable = region.backup(Path(request.directory))
    return BackupReply(request.id, size, durable)
