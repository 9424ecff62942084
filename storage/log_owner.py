"""Owning a log: writing, syncing, sealing, copying and closing it, whatever its records are about.

One thread owns it; ``backup`` may run on another beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.storage.backup import back_up
from neverforget.storage.backup_pieces import list_copy, read_piece
from neverforget.storage.copy_list import CopyList
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import OutOfSpace
from neverforget.storage.log_state import LogState
from neverforget.storage.segments import SegmentInfo

if TYPE_CHECKING:
    from neverforget.storage.old_logs import Aside
    from neverforget.storage.results import ReplicaStatus
    from neverforget.storage.shipper import Shipper


class LogOwner:
    """What is staged is nowhere before ``write``, and does not survive power loss before ``sync``.
    ``lock`` is released by ``close``.
    """

    def __init__(self, state: LogState, lock: DirectoryLock | None) -> None:
        self._owned = state
        self._log = state.log
        self._lock = lock
        self._closed = False

    def write(self) -> None:
        """Everything staged into the file: it survives the death of any process. Or Poisoned."""
        self._log.write()
        self._owned.forget_indexed()

    def sync(self) -> None:
        """Everything written onto the disk: it survives power loss. Or Poisoned."""
        self._log.sync()

    @property
    def log_end(self) -> int:
        """Where the next batch will stand: everything staged ends at or below it."""
        return self._log.tail

    @property
    def written(self) -> int:
        return self._log.written

    @property
    def durable(self) -> int:
        """What ends at or below this position survives power loss."""
        return self._log.durable

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def unproven(self) -> bool:
        """The last group is durable and nothing in the log says so yet: see ``noop_if_idle``."""
        return self._log.unproven

    @property
    def poisoned(self) -> str | None:
        """Why nothing can be written any more; open the region again. None: it can."""
        return self._log.poisoned

    def displaced(self) -> str | None:
        """What has become of the directory; None while it is the one that was opened. See
        ``DirectoryLock.displaced``.
        """
        return None if self._lock is None else self._lock.displaced()

    def noop_if_idle(self) -> bool:
        """Bring the last group below a durable mark that the log itself proves, so that rot in it
        can be told from a torn tail. Writes and syncs; False when there was nothing to prove or no
        room for it. Raises Poisoned.
        """
        log = self._log
        if not log.unproven:
            return False
        log.write()
        log.sync()
        proven = log.durable
        try:
            log.noop(self._owned.clock.now_us())
        except OutOfSpace:
            return False
        log.write()
        log.sync()
        if self.shipper is not None:
            self.shipper.leave_out(proven, log.durable)
        return True

    def backup(
        self, directory: Path, before_each: Callable[[], None] = lambda: None
    ) -> tuple[int, int]:
        """(bytes, durable) of a copy in ``directory`` that opens as this region. See ``back_up``.
        What is only staged or written is not in it: ``sync`` first.
        """
        return back_up(self._owned, directory, before_each)

    def segments(self) -> list[SegmentInfo]:
        return self._log.segments()

    def list_copy(self) -> CopyList:
        """The files of such a copy, for who reads them with ``read_copy``, on any thread."""
        return list_copy(self._owned)

    def read_copy(self, name: str, offset: int, n_bytes: int) -> bytes:
        return read_piece(self._owned, name, offset, n_bytes)

    def seal(self) -> None:
        """An orderly end: everything durable, and headers aside, so that the next opening is fast.
        Raises Poisoned.
        """
        self._log.seal()
        if self.shipper is not None:
            self.shipper.finish()

    def note_finding(self, kind: str, message: str) -> None:
        """Shown in the status, as long as it is open."""
        state = self._owned
        state.report(state.finding(kind, state.log.tail, 0, message))

    # ---- beyond this machine ---------------------------------------------------------------------

    @property
    def log_id(self) -> int:
        return self._owned.log_id

    @property
    def shipper(self) -> Shipper | None:
        """What ships the log; None: nothing does."""
        return self._owned.shipper

    def asides(self) -> list[Aside]:
        """What was set aside when its log was cut, the oldest first."""
        from neverforget.storage.old_logs import asides

        return asides(self._owned.fs, self._owned.directory)

    def let_go(self, aside: Aside) -> None:
        """It goes: what came of it is shipped."""
        from neverforget.storage.old_logs import let_go

        let_go(self._owned.fs, aside)

    @property
    def can_erase(self) -> bool:
        """False: the objects would keep what is erased here."""
        return self.shipper is None or self.shipper.ships

    def replica_status(self) -> ReplicaStatus | None:
        return None if self.shipper is None else self.shipper.status()

    @property
    def restarts(self) -> int:
        """How many processes of the same host have owned it before this one."""
        return 0 if self._lock is None else self._lock.holder.restarts

    @property
    def held_lock(self) -> DirectoryLock | None:
        return self._lock

    def leave_lock(self) -> None:
        """A successor in this process has the lock now: ``close`` does not release it."""
        self._lock = None

    def close(self) -> None:
        """Release files and lock. What was staged and not written is dropped. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self.shipper is not None:
            self.shipper.close()
        self._log.close()
        if self._lock is not None:
            self._lock.release()
