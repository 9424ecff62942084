"""All side files of one log: the loaded ones, those being made, and finding an id in them."""

from __future__ import annotations

from bisect import insort
from concurrent.futures import Future
from pathlib import Path

from neverforget.storage.check import build_side_file
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.segment import Segment
from neverforget.storage.side_file import SideFile, load_side_file, side_path, write_side_file
from neverforget.storage.spare import Submit


class SideFiles:
    """Owned by the log's thread; the making runs on a worker when there is one.

    A side file that cannot be made (no space, a failing disk) is done without: its segment is
    scanned at the next opening. ``failure`` is the last such error."""

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
        self._pending: dict[int, Future[SideFile]] = {}
        self.failure: str | None = None

    def make(self, segment: Segment, stop: int) -> None:
        """Have the side file over [base, stop) of a segment made; everything there is durable."""

        def work() -> SideFile:
            data = build_side_file(segment, stop, self._log_id, gently=self._submit is not None)
            path = side_path(self._directory, segment.base)
            write_side_file(self._fs, path, data)
            return load_side_file(self._fs, path, self._log_id)

        if segment.base in self._pending:
            self.collect(wait=True)  # two workers must not write one file
        if self._submit is not None:
            self._pending[segment.base] = self._submit(work)
            return
        try:
            self._add(work())
        except (OSError, Corrupt) as error:
            self.failure = str(error)

    def collect(self, *, wait: bool = False) -> None:
        """Take what the worker has finished."""
        for base, future in list(self._pending.items()):
            if wait or future.done():
                del self._pending[base]
                try:
                    self._add(future.result())
                except (OSError, Corrupt) as error:
                    self.failure = str(error)

    def _add(self, side: SideFile) -> None:
        if side.base in self._loaded:
            self._loaded[side.base].close()
        else:
            insort(self._order, side.base)
        self._loaded[side.base] = side

    def covered(self, bases: list[int]) -> int:
        """The position below which every record of these segments, in order, is in a side file."""
        self.collect()
        reached = 0
        for base in bases:
            side = self._loaded.get(base)
            if side is None:
                break
            reached = side.stop
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
        self.collect(wait=True)
        for side in self._loaded.values():
            side.close()
        self._loaded.clear()
        self._order.clear()
