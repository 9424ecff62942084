"""All side files of one log: the loaded ones, those being made, and finding an id in them."""

from __future__ import annotations

import logging
from bisect import insort
from collections import deque
from concurrent.futures import Future
from pathlib import Path

from neverforget.storage.check import build_side_file
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.segment import Segment
from neverforget.storage.side_file import SideFile, load_side_file, side_path, write_side_file
from neverforget.storage.spare import Submit

logger = logging.getLogger(__name__)


class SideFiles:
    """Owned by the log's thread; the making runs on a worker when there is one, one at a time, so
    that two of them never write one file and a second worker is left for what the log waits for.

    A side file that cannot be made (no space, a failing disk) is done without: its segment is
    scanned at the next opening. It is tried again together with the next one. ``failure`` is the
    last such error."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        log_id: int,
        submit: Submit | None,
        loaded: list[SideFile],
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._log_id = log_id
        self._submit = submit
        self._loaded = {side.base: side for side in loaded}
        self._order = sorted(self._loaded)
        self._wanted: dict[int, int] = {}  # how far each should reach, as last asked
        self._queue: deque[tuple[Segment, int]] = deque()
        self._failed: deque[tuple[Segment, int]] = deque()
        self._made: deque[SideFile] = deque()
        self._job: Future[None] | None = None
        self._covered: int | None = None  # None: to be counted again
        self.failure: str | None = None

    def make(self, segment: Segment, stop: int, *, here: bool = False) -> None:
        """Have the side file over [base, stop) of a segment made; everything there is durable.
        ``here``: nothing else is waited for, and a worker would have to be started for it."""
        if self._failed:
            again, its_stop = self._failed.popleft()
            if self._wanted[again.base] == its_stop:
                self._queue.append((again, its_stop))
        self._wanted[segment.base] = stop
        self._queue.append((segment, stop))
        if self._job is None and here:
            self._work(gently=False)
        elif self._job is None:
            self._begin()
        self.collect()

    def _begin(self) -> None:
        if self._submit is None:
            self._work(gently=False)
        else:
            self._job = self._submit(self._work)

    def _work(self, *, gently: bool = True) -> None:
        """Runs on the worker: touches the queues only. ``gently``: others are served meanwhile."""
        while self._queue:
            segment, stop = self._queue.popleft()
            path = side_path(self._directory, segment.base)
            try:
                data = build_side_file(segment, stop, self._log_id, gently=gently)
                write_side_file(self._fs, path, data)
                self._made.append(load_side_file(self._fs, path, self._log_id))
            except Exception as error:
                logger.warning("%s cannot be made: %s", path, error)
                self.failure = str(error)
                self._failed.append((segment, stop))

    def collect(self, *, wait: bool = False) -> None:
        """Take what the worker has made; ``wait``: for everything that was asked."""
        while self._job is not None and (wait or self._job.done()):
            job, self._job = self._job, None
            job.result()
            if self._queue:  # it had looked for the last time when this was asked
                self._begin()
        while self._made:
            self._add(self._made.popleft())

    def _add(self, side: SideFile) -> None:
        if side.base in self._loaded:
            self._loaded[side.base].close()
        else:
            insort(self._order, side.base)
        self._loaded[side.base] = side
        self._covered = None

    def loaded(self, base: int) -> SideFile | None:
        return self._loaded.get(base)

    def covered(self, bases: list[int]) -> int:
        """The position below which every record of these segments, in order, is in a side file."""
        self.collect()
        if self._covered is None:
            self._covered = self._count(bases)
        return self._covered

    def _count(self, bases: list[int]) -> int:
        reached = 0
        for base in bases:
            side = self._loaded.get(base)
            if side is None:
                break
            reached = side.stop
            if reached < self._wanted.get(base, 0):
                break  # of when the log was closed in mid-segment; records followed
        return reached

    def find(self, id12: bytes, since: int) -> list[int]:
        """Positions >= ``since``, ascending, of the records with this id, in all segments that have
        a side file."""
        self.collect()
        found: list[int] = []
        for base in self._order:
            side = self._loaded[base]
            if side.stop > since:
                found.extend(p for p in side.find(id12) if p >= since)
        return found

    def close(self) -> None:
        self._queue.clear()
        self.collect(wait=True)
        for side in self._loaded.values():
            side.close()
        self._loaded.clear()
        self._order.clear()
