"""Opening a log after whatever happened to it: what is accepted, what is torn, what is corrupt.

The durable mark is the highest position that any valid record, sealed segment or side file proves
to have been synced. Invalid beyond it: a torn tail, also when valid records follow (a group reaches
the disk in any order). Invalid before it: corruption. ``judge`` decides that, purely; ``recover``
does the reading and the writing: torn bytes are copied aside and zeroed, corrupt ones copied and
left where they are, and what is accepted beyond the mark is written again (same bytes, same place)
and synced before anybody sees it, because the page cache may hold what the disk lost."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.errors import Corrupt, OutOfSpace, Poisoned
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.inventory import Inventory, take_inventory
from neverforget.storage.judgement import Array, Judgement, Part, Range, judge
from neverforget.storage.record import log_seed
from neverforget.storage.results import Finding
from neverforget.storage.scan import gather_heads, scan
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    ReadBy,
    Segment,
    write_zeros,
)
from neverforget.storage.side_file import SideFile, load_side_file, side_path

_REWRITE_BYTES = 1 << 20


@dataclass(slots=True)
class SegmentHeads:
    """One segment's readable headers, in log order. ``body_ok`` False: erased or unreadable, the
    owner knows which.

    ``stop``: where its data ends. ``side_file``: covers all of it.
    """

    base: int
    stop: int
    heads: Array
    positions: Array
    body_ok: Array
    side_file: SideFile | None = None


@dataclass(slots=True)
class Recovered:
    """What opening found. ``findings`` holds no bad bodies: see ``SegmentHeads.body_ok``.

    ``quarantined``: [start, stop) positions where whole records are lost. ``proven``: the durable
    mark that was found; everything below ``tail`` is durable by now."""

    segments: list[SegmentHeads] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    torn_bytes: int = 0
    quarantined: list[Range] = field(default_factory=list)
    tail: int = 0
    proven: int = 0

    @property
    def records(self) -> int:
        return sum(len(s.heads) for s in self.segments)


def _heads_of(part: Part, tail: int) -> SegmentHeads:
    count = int(np.searchsorted(part.positions, np.uint64(tail)))
    return SegmentHeads(
        base=part.segment.base,
        stop=min(max(part.data_end, part.stop_claimed), tail),
        heads=part.heads[:count],
        positions=part.positions[:count],
        body_ok=part.body_ok[:count],
        side_file=part.side_file,
    )


class Recovery:
    """One opening: finds the segments, reads them, judges, repairs. ``run`` gives the open segments
    and the result."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        *,
        log_id: int,
        epoch: int,
        torn_directory: Path,
        quarantine_directory: Path,
        read_by: ReadBy,
        read_only: bool,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._log_id = log_id
        self._seed = log_seed(log_id)
        self._epoch = epoch
        self._torn = torn_directory
        self._quarantine = quarantine_directory
        self._read_by: ReadBy = read_by
        self._read_only = read_only
        self._found = Recovered()
        self._unread_until = 0  # the disk could not read everything below this position

    def run(self) -> tuple[list[Segment], int, Recovered]:
        """(segments, index of the active one, result). Segments behind the active one are empty.

        ``read_only`` writes nothing and accepts what lies below the durable mark only. Raises
        Corrupt when there is no log of ours, UnsupportedFormat, OutOfSpace, or Poisoned when what
        is accepted could not be made durable; then no file stays open.
        """
        inventory = take_inventory(
            self._fs,
            self._directory,
            log_id=self._log_id,
            read_by=self._read_by,
            read_only=self._read_only,
        )
        try:
            active = self._run(inventory)
        except BaseException:
            inventory.close()
            raise
        return inventory.segments, active, self._found

    def _run(self, inventory: Inventory) -> int:
        found = self._found
        found.findings += inventory.findings
        found.quarantined += inventory.missing
        parts = [self._read(s, inventory.lengths[s.base]) for s in inventory.segments]
        verdict = judge(parts)
        for start, stop in verdict.corrupt:
            self._set_aside(parts, start, stop)
        for part in parts[: verdict.active]:
            self._note_stray_bytes(part)
        found.quarantined.sort()
        found.tail, found.proven = verdict.tail, verdict.mark
        if self._read_only:
            found.tail = min(verdict.tail, verdict.mark)
        else:
            self._make_durable(parts, verdict)
        found.segments = [_heads_of(part, found.tail) for part in parts[: verdict.active + 1]]
        return verdict.active

    # ---- reading ---------------------------------------------------------------------------------

    def _read(self, segment: Segment, length: int) -> Part:
        base = segment.base
        side = self._side_file(segment)
        claimed = 0
        if side is not None and side.stop - base > length:
            claimed = side.stop  # its headers are known, their bytes are gone
            side.close()
            side = None
        start = side.stop - base if side is not None else SEGMENT_HEADER_BYTES
        view, unreadable = segment.whole(start)
        for offset, n_bytes in unreadable:
            self._report(
                "read_error",
                "error",
                segment.path.name,
                offset,
                n_bytes,
                "the disk cannot read this range",
            )
            self._unread_until = max(self._unread_until, base + offset + n_bytes)
        result = scan(view, base=base, start=start, size=segment.size, seed=self._seed)
        for offset in result.bad_padding:
            message = "the padding behind this record is not zero; the record itself is intact"
            self._report("corrupt_padding", "repaired", segment.path.name, offset, 0, message)
        offsets = np.array(result.offsets, dtype=np.int64)
        heads = gather_heads(view, offsets)
        positions = offsets.astype(np.uint64) + np.uint64(base)
        body_ok = ~np.isin(offsets, result.bad_bodies)
        gaps = [(base + a, base + b) for a, b in result.gaps]
        if side is not None:
            gaps = side.gaps + gaps
            if len(offsets):
                heads = np.concatenate((side.heads, heads))
                positions = np.concatenate((side.positions, positions))
                body_ok = np.concatenate((side.body_ok, body_ok))
                claimed = side.stop  # it covers a part only: a new one will be made
                side.close()
                side = None
            else:
                heads, positions, body_ok = side.heads, side.positions, side.body_ok
        return Part(
            segment=segment,
            cut=length < segment.size,
            heads=heads,
            positions=positions,
            body_ok=body_ok,
            gaps=gaps,
            data_end=base + result.data_end,
            garbage_end=base + result.garbage_end,
            side_file=side,
            stop_claimed=max(claimed, side.stop if side is not None else 0),
        )

    def _side_file(self, segment: Segment) -> SideFile | None:
        path = side_path(self._directory, segment.base)
        if not self._fs.exists(path):
            return None
        try:
            side = load_side_file(self._fs, path, self._log_id)
            if side.base == segment.base and side.size == segment.size and side.stop <= segment.end:
                return side
            side.close()
            problem = "belongs to another segment"
        except (Corrupt, OSError) as error:
            problem = str(error)
        self._report(
            "bad_side_file",
            "repaired",
            path.name,
            0,
            0,
            f"{problem}; its segment was scanned instead",
        )
        if not self._read_only:
            self._fs.unlink(path)
        return None

    # ---- repairing -------------------------------------------------------------------------------

    def _set_aside(self, parts: list[Part], start: int, stop: int) -> None:
        """Corruption stays where it is; a copy and a finding are made, and its range is known."""
        part = next(p for p in parts if p.segment.base <= start < p.segment.end)
        offset, end = start - part.segment.base, stop - part.segment.base
        self._found.quarantined.append((start, stop))
        message = f"records at positions {start}..{stop} are lost: corrupt before the durable mark"
        path = self._quarantine / f"{start:016x}-{stop:016x}.bad"
        if not self._read_only and not self._fs.exists(path):
            try:
                self._fs.make_directory(self._quarantine)
                write_atomic(self._fs, path, part.segment.copy(offset, end))
            except OSError as error:
                message += f"; no copy could be made ({error}), the bytes stay where they are"
        self._report(
            "corrupt_header", "error", part.segment.path.name, offset, end - offset, message
        )

    def _note_stray_bytes(self, part: Part) -> None:
        """Bytes behind the last record of a sealed segment: rot in space that was never used."""
        end = max(part.data_end, part.stop_claimed)
        if part.stop_claimed and part.garbage_end > end:
            name, offset = part.segment.path.name, end - part.segment.base
            message = "bytes that are not zero stand behind the last record; no record is touched"
            self._report(
                "corrupt_padding", "repaired", name, offset, part.garbage_end - end, message
            )

    def _tear(self, part: Part, start: int) -> None:
        """Copy what lies from ``start`` on aside, then zero it, on the disk."""
        end = max(part.garbage_end, part.data_end)
        if end <= start:
            return
        base = part.segment.base
        self._found.torn_bytes += end - start
        message = (
            f"{end - start:,} bytes beyond the durable mark were never complete; "
            f"copied to {self._torn.name}/"
        )
        self._report(
            "torn_tail", "repaired", part.segment.path.name, start - base, end - start, message
        )
        self._fs.make_directory(self._torn)
        self._fs.sync_directory(self._torn.parent)
        path = self._torn / f"{start:016x}-{end:016x}-{self._epoch:08x}.torn"
        write_atomic(self._fs, path, part.segment.copy(start - base, end - base))
        write_zeros(part.segment.file, start - base, end - base)

    def _make_durable(self, parts: list[Part], verdict: Judgement) -> None:
        """Write what is accepted beyond the mark again, zero what is torn, sync."""
        part = parts[verdict.active]
        segment = part.segment
        start = max(verdict.mark, segment.base + SEGMENT_HEADER_BYTES)
        if self._unread_until > start:
            raise Poisoned(
                f"the disk cannot read the end of the log in {self._directory}; what stands there "
                "may be acknowledged turns, so nothing is appended or zeroed: mend the disk and "
                "open it again"
            )
        try:
            for at in range(start, verdict.tail, _REWRITE_BYTES):
                offset = at - segment.base
                stop = min(verdict.tail, at + _REWRITE_BYTES) - segment.base
                segment.file.pwrite([segment.copy(offset, stop)], offset)
            self._tear(part, max(verdict.tail, start))
            segment.file.fdatasync()
            for later in parts[verdict.active + 1 :]:
                self._tear(later, later.segment.base + SEGMENT_HEADER_BYTES)
        except OutOfSpace:
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OutOfSpace(
                    f"no room to put torn bytes of {self._directory} aside; free disk space"
                ) from error
            raise Poisoned(
                f"what was found in {self._directory} could not be made durable ({error}); "
                "nothing can be appended to it: mend the disk and open it again"
            ) from error

    def _report(
        self, kind: str, severity: str, file: str, offset: int, n_bytes: int, message: str
    ) -> None:
        self._found.findings.append(Finding(kind, severity, file, offset, n_bytes, message))
