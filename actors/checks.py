"""Checks of the whole log and backups: one at a time, on a thread beside the owner's loop. An owner
that ends gives them up: what is under way at its next segment, what waits at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from crc32c import crc32c

from neverforget.actors.backup_messages import (
    ListCopy,
    ListCopyReply,
    ReadCopy,
    ReadCopyReply,
)
from neverforget.actors.messages import (
    AnyReply,
    AnyRequest,
    Backup,
    BackupReply,
    Verify,
    VerifyReply,
)
from neverforget.actors.ports import Pending, failure, internal_error
from neverforget.storage.copy_list import CopyList
from neverforget.storage.errors import Corrupt, NeverforgetError, Overloaded, Unavailable
from neverforget.storage.results import Finding

log = logging.getLogger(__name__)
_WAITING_MAX = 16
_FINDINGS_MAX = 10_000
COPIES = (Backup, ListCopy, ReadCopy)


class Verified(Protocol):
    """Iterate over it for the findings; then ``records`` and ``bytes`` say how much was read."""

    records: int
    bytes: int

    def __iter__(self) -> Iterator[Finding]: ...


class Checked(Protocol):
    """What can be checked and copied. ``go_on`` may end either by raising."""

    def verify(self, go_on: Callable[[], None], /) -> Verified: ...

    def backup(self, directory: Path, go_on: Callable[[], None], /) -> tuple[int, int]: ...

    def list_copy(self) -> CopyList: ...

    def read_copy(self, name: str, offset: int, n_bytes: int, /) -> bytes: ...


class Checks:
    def __init__(self, name: str) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = 0
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def __len__(self) -> int:
        return self._waiting

    def verify(self, region: Checked, pending: Pending, request: Verify) -> None:
        self._submit(pending, lambda: _verify(region, request, self._go_on))

    def copy(self, region: Checked, pending: Pending, request: AnyRequest) -> None:
        """One of ``COPIES``."""
        self._submit(pending, lambda: _copy(region, request, self._go_on))

    def close(self) -> None:
        """Everybody who waits is told that the owner ends."""
        self._ending.set()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _go_on(self) -> None:
        if self._ending.is_set():
            raise _ended()

    def _submit(self, pending: Pending, work: Callable[[], AnyReply]) -> None:
        with self._lock:
            if self._waiting >= _WAITING_MAX:
                error = Overloaded("too many checks and backups wait; ask again later")
                pending.reply(failure(pending.request.id, error))
                return
            self._waiting += 1
        self._worker.submit(self._do, pending, work).add_done_callback(
            lambda future: self._given_up(pending) if future.cancelled() else None
        )

    def _given_up(self, pending: Pending) -> None:
        with self._lock:
            self._waiting -= 1
        pending.reply(failure(pending.request.id, _ended()))

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
            reply = failure(id, internal_error(error))
        finally:
            with self._lock:
                self._waiting -= 1
        pending.reply(reply)


def _ended() -> Unavailable:
    return Unavailable("the owner has ended; ask again", outcome="not_applied")


def _verify(region: Checked, request: Verify, go_on: Callable[[], None]) -> VerifyReply:
    verification = region.verify(go_on)
    findings: list[Finding] = []
    for finding in verification:
        if len(findings) < _FINDINGS_MAX:
            findings.append(finding)
    return VerifyReply(request.id, findings, verification.records, verification.bytes)


def _copy(region: Checked, request: AnyRequest, go_on: Callable[[], None]) -> AnyReply:
    if isinstance(request, Backup):
        size, durable = region.backup(Path(request.directory), go_on)
        return BackupReply(request.id, size, durable)
    if isinstance(request, ListCopy):
        return ListCopyReply(request.id, region.list_copy())
    assert isinstance(request, ReadCopy), f"{request} copies nothing"
    data = region.read_copy(request.name, request.offset, request.length)
    return ReadCopyReply(request.id, data, crc32c(data))
