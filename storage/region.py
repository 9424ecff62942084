"""One partition's conversations: a log, the index of its sessions, and what was asked before.

Writes only *stage*: nothing is in the file before ``write``, nothing survives power loss before
``sync``, and each answers the log position that must be durable for it (compare with ``durable``).
Erasing is the exception: it writes and syncs by itself. One thread owns a region; ``verify`` and
``backup`` may run on another beside it.

A region directory: ``LOCK IDENTITY EPOCH log/ torn/ quarantine/``. The log is the only truth;
everything in memory is built from it when the region is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.storage.annotating import Annotator
from neverforget.storage.appending import Appender
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.digests import session_digest
from neverforget.storage.directory_lock import DirectoryLock, ProcessId, Role
from neverforget.storage.erasure import Eraser
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.free_memory import give_back_free_memory
from neverforget.storage.identity import check_identity, region_identity
from neverforget.storage.log_owner import LogOwner
from neverforget.storage.recovery import Recovered
from neverforget.storage.reflection_results import PlannedRange
from neverforget.storage.region_creation import create_region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_reads import RegionReads
from neverforget.storage.region_state import RegionState
from neverforget.storage.region_takeover import take_over
from neverforget.storage.repeats import Repeats
from neverforget.storage.results import (
    Appended,
    ErasureView,
    ForkPoint,
    RegionStatus,
)
from neverforget.storage.session_index import Digest, SessionIndex
from neverforget.storage.slices import Slices
from neverforget.storage.spare import Submit
from neverforget.storage.verification import Verification

if TYPE_CHECKING:
    from neverforget.storage.replica import Replica
    from neverforget.storage.salvage_readings import Readings
    from neverforget.storage.salvage_results import Piece, SalvageReport

Namespace = tuple[str, ...]


class Region(RegionReads, LogOwner):
    """See the module. Made by ``open``, never directly."""

    def __init__(
        self,
        state: RegionState,
        lock: DirectoryLock | None,
        options: RegionOptions,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        RegionReads.__init__(self, state, options)
        LogOwner.__init__(self, state, lock)
        repeats = Repeats(state)
        self._appender = Appender(state, repeats)
        self._annotator = Annotator(state, repeats, self._appender)
        self._eraser = Eraser(state, repeats, self._appender, self._annotator, random_bytes)
        self.ledger = state.ledger
        self._repeats = repeats
        self._readings: Readings | None = None
        self._salvaged: set[tuple[Namespace, str]] = set()
        self._recovery_us = 0
        self._torn_bytes = 0

    # ---- creating and opening --------------------------------------------------------------------

    @staticmethod
    def create(
        fs: FileSystem,
        directory: Path,
        *,
        store_id: str,
        partition: int,
        options: RegionOptions | None = None,
    ) -> None:
        """Make an empty region; durable when this returns. One that is there already, of this store
        and partition, is left alone; a creation that was interrupted is finished.

        Raises UnsupportedFormat for another's directory, Corrupt for a log without an identity,
        OutOfSpace.
        """
        create_region(fs, directory, region_identity(store_id, partition), options)

    @staticmethod
    def open(
        fs: FileSystem,
        directory: Path,
        *,
        store_id: str,
        partition: int,
        role: Role = "application",
        host: ProcessId | None = None,
        clock: Clock | None = None,
        options: RegionOptions | None = None,
        digest: Digest = session_digest,
        submit: Submit | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        lock: bool = True,
        lock_wait_s: float = 0.0,
        read_only: bool = False,
        predecessor: Region | None = None,
        replica: Replica | None = None,
    ) -> Region:
        """Take the region over: lock, epoch, scan. What it then holds is durable.

        ``lock`` False: the caller vouches that nobody else has it (a file system in memory).
        ``read_only``: serve what lies below the durable mark and write nothing, ever; for when an
        opening raised OutOfSpace or Poisoned. ``predecessor``: such a one, open in this process,
        which goes on serving meanwhile; its lock is this region's when this returns. Close it then.
        ``replica``: see ``take_over``; adds Unavailable (it does not answer) and OwnerFenced.
        Raises NotFound, UnsupportedFormat, StoreLocked, Corrupt, OutOfSpace, Poisoned (what was
        found could not be made durable), OSError. Nothing is held then.
        """
        clock, options = clock or SystemClock(), options or RegionOptions()
        started = clock.monotonic()
        identity = check_identity(
            fs, directory, store_id=store_id, what="region", partition=partition
        )
        acquire = partial(
            DirectoryLock.acquire, directory, role=role, host=host, wait_s=lock_wait_s
        )
        taken = take_over(
            fs,
            directory,
            log_id=identity.log_id,
            lock=acquire if lock else None,
            options=options,
            clock=clock,
            submit=submit,
            read_only=read_only,
            held=None if predecessor is None else predecessor.held_lock,
            replica=replica,
        )
        try:
            index = SessionIndex(digest)
            state = RegionState(
                fs, directory, partition, taken.log, identity.log_id, clock, index, options
            )
            state.shipper = taken.shipper
            region = Region(state, taken.lock, options, random_bytes)
            region._recover(taken.recovered)
        except BaseException:
            taken.give_up()
            raise
        if predecessor is not None:
            predecessor.leave_lock()
        records = taken.recovered.records
        del taken  # what was recovered is as large as all headers
        give_back_free_memory(records)
        region._recovery_us = int((clock.monotonic() - started) * 1e6)
        return region

    def _recover(self, recovered: Recovered) -> None:
        self._torn_bytes = recovered.torn_bytes
        self._state.load(recovered)
        if self._log.poisoned is None and self.can_erase:
            self._eraser.complete_unfinished()
        elif self._state.unfinished and self.shipper is not None:
            self.shipper.put_erasures_off()

    def complete_erasures(self) -> int:
        """Carry out what was put off until the replica answers; how many erasures. Writes and
        syncs. Raises Unavailable, OwnerFenced, Corrupt (of objects), Poisoned."""
        return self._eraser.complete_unfinished()

    # ---- writes ----------------------------------------------------------------------------------

    def append(
        self,
        namespace: Namespace,
        session: str,
        agent: str | None,
        producer: int,
        producer_seq: int,
        expect_seq: int | None,
        records: bytes,
    ) -> Appended:
        """Stage turns: all of ``records``, or none. See ``messages.Append`` and ``Appender``."""
        return self._appender.append(
            namespace, session, agent, producer, producer_seq, expect_seq, records
        )

    def hide(
        self,
        namespace: Namespace,
        session: str,
        runs: Sequence[tuple[int, int]],
        hidden: bool,
        by: str,
        reason: str | None,
        producer: int,
        producer_seq: int,
    ) -> int:
        """Stage; the position that must be durable. Raises NotFound, InvalidArgument, Conflict."""
        request = (producer, producer_seq)
        return self._annotator.hide((namespace, session), runs, hidden, by, reason, request)

    def fork(
        self,
        namespace: Namespace,
        session: str,
        parent: ForkPoint,
        tokens: int,
        by: str,
        producer: int,
        producer_seq: int,
    ) -> int:
        """Stage; the position that must be durable. Conflict when the session exists."""
        request = (producer, producer_seq)
        return self._annotator.fork((namespace, session), parent, tokens, by, request)

    def mark(
        self,
        namespace: Namespace,
        session: str,
        first: int,
        last: int,
        extractor: str,
        producer: int,
        producer_seq: int,
    ) -> int:
        """Stage; the position that must be durable."""
        request = (producer, producer_seq)
        return self._annotator.mark((namespace, session), first, last, extractor, request)

    def plan(
        self,
        namespace: Namespace,
        session: str,
        first: int,
        last: int,
        extractor: str,
        producer: int,
        producer_seq: int,
        at: int = 0,
        begun: int = 1,
    ) -> tuple[PlannedRange, int]:
        """Stage a plan to reflect these turns, or with ``at`` that the one of that time has been
        begun so often; with the position that must be durable.
        """
        planned = PlannedRange(first, last, extractor, at, begun)
        return self._annotator.plan((namespace, session), planned, (producer, producer_seq))

    def fail_reflection(
        self,
        namespace: Namespace,
        session: str,
        first: int,
        last: int,
        extractor: str,
        tries: int,
        error: str,
        producer: int,
        producer_seq: int,
    ) -> int:
        """Stage; the position that must be durable."""
        return self._annotator.fail(
            (namespace, session), first, last, extractor, tries, error, (producer, producer_seq)
        )

    def refuse(self, operation: str, target: Mapping[str, Any], by: str, reason: str | None) -> int:
        """Stage; the position that must be durable."""
        return self._annotator.refuse(operation, target, by, reason)

    def erase(
        self,
        namespace: Namespace,
        session: str,
        runs: Sequence[tuple[int, int]] | None,
        confirm: str | None,
        by: str,
        reason: str | None,
        producer: int,
        producer_seq: int,
    ) -> ErasureView:
        """Erase at once, everything staged written and synced on the way. See ``Eraser.erase``."""
        request = (producer, producer_seq)
        return self._eraser.erase((namespace, session), runs, confirm, by, reason, request)

    def salvage(self, piece: Piece) -> Slices[SalvageReport]:
        """Stage what of a piece of an old log is not here, in slices. Erasures in it are durable
        when it returns. See ``Salvaging.take``.
        """
        if self._readings is None:
            self._readings = self._make_readings()
        return self._readings.take(piece)

    def _make_readings(self) -> Readings:
        from neverforget.storage.region_salvaging import RegionSalvaging
        from neverforget.storage.salvage_readings import Brought, Readings

        state = self._state

        def make(brought: Brought) -> RegionSalvaging:
            return RegionSalvaging(
                state, brought, self._repeats, self._appender, self._eraser, self._salvaged
            )

        return Readings(state, make)

    def salvaged_sessions(self) -> set[tuple[Namespace, str]]:
        """Those that a salvage has brought turns to since this was asked."""
        changed = set(self._salvaged)
        self._salvaged.clear()
        return changed

    # ---- the whole of it -------------------------------------------------------------------------

    def status(self) -> RegionStatus:
        state, log = self._state, self._log
        return RegionStatus(
            partition=state.partition,
            epoch=log.epoch,
            restarts=self.restarts,
            sessions=len(state.index),
            turns=state.index.turns,
            log_bytes=log.bytes_on_disk,
            tail=log.tail,
            durable=log.durable,
            segments=len(log.segments()),
            quarantined_bytes=state.lost.bytes,
            torn_bytes=self._torn_bytes,
            recovery_us=self._recovery_us,
            last_sync_us=log.last_sync_us,
            syncs=log.syncs,
            findings=list(state.findings),
            replica=self.replica_status(),
            appended=state.appended,
        )

    def verify(self, before_each: Callable[[], None] = lambda: None) -> Verification:
        """Iterate over it: reads everything that is durable, on whatever thread."""
        return Verification(self._state, before_each)
