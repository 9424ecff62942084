"""The log: a directory of segments, one writer, append and read by position.

    position = log.reserve(n_bytes)              may roll to the next segment
    log.stamp(batch, offset, position + offset)  once for each record of the batch
    log.stage(batch)                             nothing is written yet
    log.write()                                  one pwrite: survives the death of this process
    log.sync()                                   one fdatasync: survives power loss

Invariants: records and batches never span segments; nothing is written to a segment before the one
in front of it is synced as a whole; ``durable <= written <= tail``; what is below ``durable`` was
synced. A failed write or sync poisons the log: nothing is retried, every later write or sync raises
Poisoned, reads go on; open it again. OutOfSpace arises only where a segment is made, refuses that
batch and leaves the log as it was. One thread owns a Log; ``submit`` runs the making of spare
segments and side files elsewhere, and ``verify`` may run beside it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NoReturn

from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import InvalidArgument, OutOfSpace, Poisoned
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import Kind
from neverforget.storage.log_options import LogOptions as LogOptions
from neverforget.storage.log_reader import LogReader
from neverforget.storage.overwrites import Overwrites
from neverforget.storage.record import Buffer, encode_control, header_seed, stamp
from neverforget.storage.recovery import Recovered, Recovery
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    create_segment,
)
from neverforget.storage.segments import SegmentInfo as SegmentInfo
from neverforget.storage.side_files import SideFiles
from neverforget.storage.spare import SparePipeline, Submit
from neverforget.storage.staged import StagedBatches

logger = logging.getLogger(__name__)

_SLOW_SYNC_US = 1_000_000


class Log(LogReader):
    """See the module. Made by ``create`` and ``open``, never directly."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        *,
        log_id: int,
        epoch: int,
        options: LogOptions,
        clock: Clock,
        submit: Submit | None,
        segments: list[Segment],
        active: int,
        recovered: Recovered,
    ) -> None:
        loaded = [s.side_file for s in recovered.segments if s.side_file is not None]
        sides = SideFiles(fs, directory, log_id, submit, loaded)
        super().__init__(fs, directory, log_id, segments[: active + 1], sides, recovered.tail)
        self.epoch = epoch
        self._options = options
        self._clock = clock
        self._spares = SparePipeline(
            fs,
            directory,
            log_id=log_id,
            epoch=epoch,
            options=options,
            submit=submit,
            spare=segments[active + 1] if active + 1 < len(segments) else None,
        )

        self.poisoned: str | None = None
        self.closed = False
        self.syncs = 0
        self.last_sync_us = 0
        self._proven = recovered.proven
        self._claim_written = recovered.proven
        self._last_real_end = recovered.tail
        self._overwrites = Overwrites(fs)

    # ---- creating and opening --------------------------------------------------------------------

    @staticmethod
    def create(
        fs: FileSystem, directory: Path, *, log_id: int, options: LogOptions | None = None
    ) -> None:
        """Make the directory and the first segment; durable when this returns. Raises OutOfSpace,
        OSError."""
        options = options or LogOptions()
        fs.make_directory(directory)
        fs.sync_directory(directory.parent)
        header = SegmentHeader(log_id, 0, options.size_after(0), 0)
        create_segment(fs, directory, header, "pread").close()

    @staticmethod
    def open(
        fs: FileSystem,
        directory: Path,
        *,
        log_id: int,
        epoch: int,
        torn_directory: Path,
        quarantine_directory: Path,
        options: LogOptions | None = None,
        clock: Clock | None = None,
        submit: Submit | None = None,
        read_only: bool = False,
    ) -> tuple[Log, Recovered]:
        """Recover and open; everything in the log that is returned is durable.

        Raises as ``Recovery.run``. Where that is OutOfSpace or Poisoned, ``read_only=True`` still
        gives what lies below the durable mark, and writes nothing, ever.
        """
        options = options or LogOptions()
        recovery = Recovery(
            fs,
            directory,
            log_id=log_id,
            epoch=epoch,
            torn_directory=torn_directory,
            quarantine_directory=quarantine_directory,
            read_by=options.read_by,
            read_only=read_only,
        )
        segments, active, recovered = recovery.run()
        for surplus in segments[active + 2 :]:  # empty: one spare is enough
            surplus.close()
            if not read_only:
                fs.unlink(surplus.path)
        log = Log(
            fs,
            directory,
            log_id=log_id,
            epoch=epoch,
            options=options,
            clock=clock or SystemClock(),
            submit=submit,
            segments=segments,
            active=active,
            recovered=recovered,
        )
        for segment in log._segments.all[:-1]:
            segment.retire()
        if read_only:
            log.poisoned = f"the log in {directory} is open for reading only"
        else:
            log._make_missing_side_files(recovered)
        return log, recovered

    def _make_missing_side_files(self, recovered: Recovered) -> None:
        """Of sealed segments, whose owner ended before its worker had made them."""
        made = {s.base: s for s in recovered.segments}
        for segment in self._segments.all[:-1]:
            found = made[segment.base]
            if found.side_file is None:
                self._sides.make(segment, found.stop)

    # ---- appending -------------------------------------------------------------------------------

    def reserve(self, n_bytes: int, added: int = 0) -> int:
        """Where the next batch, of ``n_bytes``, will stand. Rolls to another segment when it does
        not fit. ``added``: so many of them are not the caller's, and do not count for its size.

        Rolling writes and syncs what was staged. Raises InvalidArgument above ``batch_bytes_max``,
        OutOfSpace when the segment cannot be made (the log is as it was), Poisoned."""
        if self.poisoned is not None:
            self._refuse()
        if n_bytes - added > self._options.batch_bytes_max:
            raise InvalidArgument(
                f"a batch of {n_bytes:,} bytes is above the limit of "
                f"{self._options.batch_bytes_max:,}; append it in parts"
            )
        if self.tail + n_bytes > self._active.end:
            self._roll(n_bytes)
        return self.tail

    def stamp(
        self,
        buffer: bytearray,
        offset: int,
        position: int,
        *,
        session_id: int,
        seq: int,
        flags_or: int = 0,
    ) -> None:
        """Complete the record at ``offset`` of ``buffer`` for ``position``, with this log's epoch
        and durable mark."""
        stamp(
            buffer,
            offset,
            session_id=session_id,
            seq=seq,
            epoch=self.epoch,
            flags_or=flags_or,
            durable_back=(position - self.durable) >> 3,
            seed=header_seed(self._seed, position),
        )

    def stage(self, buffer: Buffer) -> None:
        """A stamped batch, whole, for the position that ``reserve`` gave. The buffer is the log's
        from now on."""
        self._stage(buffer)
        self._last_real_end = self.tail

    def _stage(self, buffer: Buffer) -> None:
        n_bytes = len(buffer)
        assert n_bytes & 7 == 0 and self.tail + n_bytes <= self._active.end, "reserve first"
        self._staged.add(buffer, self.tail, self.durable)
        self.tail += n_bytes

    def write(self) -> None:
        """Everything staged, one gathered write. It then survives the death of any process, not
        power loss.

        Raises Poisoned when it fails, and ever after.
        """
        if self.poisoned is not None:
            self._refuse()
        staged = self._staged
        if not staged.buffers:
            return
        try:
            self._active.file.pwrite(staged.buffers, staged.start - self._active.base)
        except OSError as error:
            self._poison("write", error)
        self._staged = StagedBatches()
        self.written = self.tail
        self._claim_written = staged.claim
        if self.tail - self._active.base > self._active.size // 2:
            self._spares.prepare(self._active)

    def sync(self) -> None:
        """Everything written is durable when this returns: it survives power loss. Raises Poisoned
        when it fails."""
        if self.poisoned is not None:
            self._refuse()
        if self.durable == self.written and not self._overwrites.pending:
            return
        started = self._clock.monotonic()
        try:
            self._overwrites.sync()
            self._active.file.fdatasync()
        except OSError as error:
            self._poison("sync", error)
        self._overwrites.clear()
        self.syncs += 1
        self.last_sync_us = int((self._clock.monotonic() - started) * 1e6)
        if self.last_sync_us > _SLOW_SYNC_US:
            logger.warning("a sync of %s took %.1f s", self._directory, self.last_sync_us / 1e6)
        self.durable = self.written
        self._proven = max(self._proven, self._claim_written)

    @property
    def unproven(self) -> bool:
        """The last group is durable, but no record says so yet: rot in it would pass for a torn
        tail. See ``noop``."""
        return self._last_real_end > self._proven

    def noop(self, timestamp_us: int) -> int:
        """Stage a record that says nothing but how far the log is durable. Its end. Raises as
        ``reserve``."""
        record = encode_control(Kind.NOOP, 0, 0, {}, timestamp_us=timestamp_us)
        position = self.reserve(len(record))
        self.stamp(record, 0, position, session_id=0, seq=0)
        self._stage(record)
        return self.tail

    def overwrite(self, position: int, n_bytes: int) -> None:
        """Zero the body bytes from ``position`` on, for erasure; ``sync`` makes it durable.

        Only below the durable mark that records on disk prove: beyond it, recovery would take the
        record for torn."""
        if self.poisoned is not None:
            self._refuse()
        assert position + n_bytes <= self._proven, "sync, append a record, sync; then erase"
        segment = self._segments.holding(position)
        active = segment is self._active
        try:
            self._overwrites.zero(segment, position - segment.base, n_bytes, active=active)
        except OSError as error:
            self._poison("erasure", error)

    def _poison(self, what: str, error: OSError) -> NoReturn:
        self.poisoned = (
            f"a {what} in {self._directory} failed ({error}); what was not acknowledged may be "
            "lost. The log must be opened again, which recovers what is on disk"
        )
        raise Poisoned(self.poisoned) from error

    def _refuse(self) -> NoReturn:
        raise Poisoned(self.poisoned or "")

    # ---- rolling and sealing ---------------------------------------------------------------------

    def _roll(self, n_bytes: int) -> None:
        try:
            following = self._spares.following(self._active, n_bytes)
        except OutOfSpace:
            raise
        except OSError as error:
            self._poison("making of a segment", error)
        self.write()
        self.sync()
        sealed, stop = self._active, self.tail
        self._segments.add(following)
        sealed.retire()
        self._active = following
        # written and durable stay where the data ended: the first records here thereby prove where
        # that was.
        self.tail = following.base + SEGMENT_HEADER_BYTES
        self._sides.make(sealed, stop)

    def seal(self) -> None:
        """An orderly end: everything written and durable, and a side file for what is there, so
        that the next opening reads no bodies. Appending may go on. Raises Poisoned."""
        self.write()
        self.sync()
        if self._active.base < self.durable:
            self._sides.make(self._active, self.durable, here=True)
        self._sides.collect(wait=True)

    def close(self) -> None:
        """Release every file. What was staged and not written is dropped: it was not acknowledged.
        Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._staged = StagedBatches()
        self._overwrites.clear()
        self._spares.close()
        self._sides.close()
        self._segments.close()
