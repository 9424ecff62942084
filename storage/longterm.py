"""The truth of the long-term tier: a log of memories, the table of what they are, what was asked.

Writes only *stage*: nothing is in the file before ``write``, nothing survives power loss before
``sync``, and each answers the log position that must be durable for it (compare with ``durable``).
What deletes is the exception: it is durable before it takes effect, so it writes and syncs by
itself. One thread owns a region; ``verify`` and ``backup`` may run on another beside it.

A directory: ``LOCK IDENTITY EPOCH log/ torn/ quarantine/``. The log is the only truth: the table is
built from it when the region is opened, or from a snapshot and what the log holds behind it.

``by`` is who does it; ``request`` is (producer, producer_seq), under which a repeat is recognised.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.directory_lock import DirectoryLock, ProcessId, Role
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.free_memory import give_back_free_memory
from neverforget.storage.identity import check_identity, longterm_identity
from neverforget.storage.log_owner import LogOwner
from neverforget.storage.log_state import heads_crc
from neverforget.storage.longterm_activity import LongTermActivity
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_counts import MemoryCounts
from neverforget.storage.longterm_deletions import LongTermDeletions
from neverforget.storage.longterm_deriving import Deriver
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_places import LongTermPlaces
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_relating import Relater
from neverforget.storage.longterm_remembering import Rememberer
from neverforget.storage.longterm_results import (
    Changes,
    LongTermStatus,
    MemoryView,
    NewDerived,
    NewMemory,
    NewRelation,
    Remembered,
    Superseding,
    TurnPoint,
)
from neverforget.storage.longterm_revising import Reviser
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.longterm_staging import Request, Staging
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_verification import LongTermVerification
from neverforget.storage.longterm_working import LongTermWorking
from neverforget.storage.recovery import Recovered
from neverforget.storage.region_creation import create_region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_takeover import take_over
from neverforget.storage.slices import Slices
from neverforget.storage.spare import Submit
from neverforget.storage.table_file import stored_table

if TYPE_CHECKING:
    from neverforget.storage.replica import Replica
    from neverforget.storage.salvage_readings import Readings
    from neverforget.storage.salvage_results import Piece, SalvageReport


class LongTermRegion(
    LongTermReads, LongTermPlaces, LongTermActivity, LongTermWorking, LongTermDeletions, LogOwner
):
    """See the module. Made by ``open``, never directly."""

    def __init__(
        self,
        state: LongTermState,
        lock: DirectoryLock | None,
        options: RegionOptions,
        random_bytes: Callable[[int], bytes],
        count_tokens: Callable[[str], int],
    ) -> None:
        LongTermReads.__init__(self, state, options)
        LogOwner.__init__(self, state, lock)
        staging = Staging(state)
        LongTermActivity.__init__(self, state, staging)
        LongTermDeletions.__init__(self, state, self, staging, random_bytes)
        LongTermWorking.__init__(self, state, self, staging, count_tokens)
        self._staging = staging
        self._readings: Readings | None = None
        self._rememberer = Rememberer(state, self, staging)
        self._reviser = Reviser(state, self, staging)
        self._relater = Relater(state, self, staging)
        self._deriver = Deriver(state, self, staging, random_bytes)
        self._counts = MemoryCounts(state)
        self._recovery_us = 0
        self._torn_bytes = 0

    # ---- creating and opening --------------------------------------------------------------------

    @staticmethod
    def create(
        fs: FileSystem,
        directory: Path,
        *,
        store_id: str,
        shard: int = 0,
        options: RegionOptions | None = None,
    ) -> None:
        """As ``Region.create``: durable when it returns, one that is there is left alone."""
        create_region(fs, directory, longterm_identity(store_id, shard), options)

    @staticmethod
    def open(
        fs: FileSystem,
        directory: Path,
        *,
        store_id: str,
        shard: int = 0,
        role: Role = "application",
        host: ProcessId | None = None,
        clock: Clock | None = None,
        options: RegionOptions | None = None,
        submit: Submit | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        lock: bool = True,
        lock_wait_s: float = 0.0,
        read_only: bool = False,
        predecessor: LongTermRegion | None = None,
        replica: Replica | None = None,
        snapshot: Snapshot | None = None,
        bodies: BodySource | None = None,
        derived: Path | None = None,
        count_tokens: Callable[[str], int] = len,
    ) -> LongTermRegion:
        """Take the region over: lock, epoch, scan; unfinished erasures are carried out. The
        arguments and errors are those of ``Region.open``.

        ``snapshot``: of this log; what it cannot tell is read from the log, as is everything where
        it is another's. ``derived``: the folder of generations, whose snapshot is taken where none
        is given. ``bodies``: where texts are read. ``count_tokens``: for working memories.
        """
        clock, options = clock or SystemClock(), options or RegionOptions()
        started = clock.monotonic()
        identity = check_identity(
            fs, directory, store_id=store_id, what="longterm", partition=shard
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
            state = LongTermState(fs, directory, shard, taken.log, identity.log_id, clock, bodies)
            state.shipper = taken.shipper
            region = LongTermRegion(state, taken.lock, options, random_bytes, count_tokens)
            if snapshot is None and derived is not None:
                snapshot = stored_table(fs, derived, identity.log_id)
            region._recover(taken.recovered, snapshot)
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

    def _recover(self, recovered: Recovered, snapshot: Snapshot | None) -> None:
        self._torn_bytes = recovered.torn_bytes
        self._state.load(recovered, snapshot)
        if self._log.poisoned is None and self.can_erase:
            self._eraser.complete_unfinished()
        elif self._state.unfinished and self.shipper is not None:
            self.shipper.put_erasures_off()

    def complete_erasures(self) -> int:
        """Carry out what was put off until the replica answers; how many erasures. Writes and
        syncs. Raises Unavailable, OwnerFenced, Corrupt (of objects), Poisoned."""
        return self._eraser.complete_unfinished()

    @property
    def state(self) -> LongTermState:
        """For what is derived from this region: its table, its log, its bodies. Only to be read."""
        return self._state

    def snapshot(self) -> Snapshot:
        """What is in memory, for a generation. Only of what is durable: raises AssertionError
        while something is staged or not synced.
        """
        assert self._log.durable == self._log.tail, "write and sync first"
        upto = self._log.durable
        crc = heads_crc(heads_from(self._state, 0, upto), upto)
        return Snapshot.take(upto, crc, self._state.table, self._state.relations)

    # ---- remembering -----------------------------------------------------------------------------

    def remember(
        self,
        new: Sequence[NewMemory],
        *,
        by: str,
        request: Request,
        on_conflict: str = "raise",
        superseding: Sequence[Superseding] = (),
    ) -> Remembered:
        """Stage memories with their relations, and what they supersede: all, or none.

        A known key with equal content answers the memory that holds it; with other content it is a
        Conflict, or under ``on_conflict="revise"`` a new version. Raises InvalidArgument, Conflict,
        NotFound (a relation's target), OutOfSpace, Poisoned, Corrupt; nothing was staged then.
        """
        return self._rememberer.remember(new, on_conflict, by, request, superseding)

    def derive(
        self,
        original: str,
        version: int,
        parts: Sequence[NewDerived],
        *,
        by: str,
        request: Request,
        splitter: str,
    ) -> Remembered:
        """Stage one chunking: all chunks, the summary, their relations and what goes on record, or
        none. The same one again answers what is there.

        ``splitter``: the version of what made them, from which ids are derived. Raises NotFound;
        Conflict when the original is not active at ``version``, or chunked otherwise already;
        InvalidArgument when the chunks joined are not the original, or have other ids.
        """
        return self._deriver.derive(original, version, parts, by, request, splitter)

    def revise(
        self,
        memory_id: str,
        changes: Changes,
        *,
        by: str,
        request: Request,
        expect_version: int | None = None,
    ) -> Remembered:
        """Stage a new version; its chunks and summary are retired. What changes nothing writes
        nothing. Raises NotFound, Conflict (``seq`` is the version it is at), InvalidArgument.
        """
        return self._reviser.revise(memory_id, changes, expect_version, by, request)

    def revert(
        self,
        memory_id: str,
        version: int,
        *,
        by: str,
        request: Request,
        expect_version: int | None = None,
    ) -> Remembered:
        """Stage a new version that says what ``version`` said. Nothing of the past is lost."""
        return self._reviser.revert(memory_id, version, expect_version, by, request)

    def tag(
        self, memory_id: str, tags: Sequence[str], *, by: str, request: Request
    ) -> tuple[MemoryView, int]:
        """Stage; the memory and the position that must be durable."""
        return self._reviser.tag(memory_id, tags, True, by, request)

    def untag(
        self, memory_id: str, tags: Sequence[str], *, by: str, request: Request
    ) -> tuple[MemoryView, int]:
        """Stage; takes exactly these tags, not those below them."""
        return self._reviser.tag(memory_id, tags, False, by, request)

    def relate(
        self,
        source: str,
        target: str | TurnPoint,
        kind: str,
        *,
        by: str,
        request: Request,
        weight: float = 1.0,
    ) -> int:
        """Stage; the position that must be durable. There is one relation of a kind between two
        ends: another weight replaces the first.
        """
        relation = NewRelation(target, kind, weight)
        return self._relater.relate(source, relation, by, request)

    def unrelate(
        self, source: str, target: str | TurnPoint, kind: str, *, by: str, request: Request
    ) -> int:
        """Stage; the position that must be durable. Raises NotFound."""
        return self._relater.unrelate(source, target, kind, by, request)

    def salvage(self, piece: Piece) -> Slices[SalvageReport]:
        """As ``Region.salvage``; what deletes is durable when it returns. One purge or erasure at a
        time: not while another is under way.
        """
        self._readings = self._readings or self._make_readings()
        return self._readings.take(piece)

    def _make_readings(self) -> Readings:
        from neverforget.storage.longterm_salvaging import LongTermSalvaging
        from neverforget.storage.salvage_readings import Brought, Readings

        def make(brought: Brought) -> LongTermSalvaging:
            return LongTermSalvaging(
                self._state, brought, self, self._staging, self._forgetter, self._eraser, self
            )

        return Readings(self._state, make)

    # ---- the whole of it -------------------------------------------------------------------------

    def status(self) -> LongTermStatus:
        state, log = self._state, self._log
        counts = self._counts.at(log.tail)
        return LongTermStatus(
            epoch=log.epoch,
            memories=counts.active,
            derived=counts.derived,
            archived=counts.archived,
            forgotten=counts.forgotten,
            relations=counts.relations,
            log_bytes=log.bytes_on_disk,
            tail=log.tail,
            durable=log.durable,
            segments=len(log.segments()),
            quarantined_bytes=state.lost.bytes,
            torn_bytes=self._torn_bytes,
            recovery_us=self._recovery_us,
            syncs=log.syncs,
            findings=list(state.findings),
            replica=self.replica_status(),
        )

    def verify(self, before_each: Callable[[], None] = lambda: None) -> LongTermVerification:
        """Iterate over it: reads everything that is durable, on whatever thread."""
        return LongTermVerification(self._state, before_each)
