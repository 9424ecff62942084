"""The segment behind the active one, made before it is needed.

A worker makes it when the active segment is half full; otherwise it is made when the log rolls. A
batch that does not fit into the spare gets a segment of its own size, which takes the empty spare's
place by rename."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log_options import LogOptions
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    create_segment,
    whole_pages,
)


class Submit(Protocol):
    """Runs ``work`` on a worker thread; an Executor's ``submit``."""

    def __call__(self, work: Callable[[], Any], /) -> Future[Any]: ...


class SparePipeline:
    """Owned by the log's thread. ``following`` is the only way that a segment comes into use."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        *,
        log_id: int,
        epoch: int,
        options: LogOptions,
        submit: Submit | None,
        spare: Segment | None,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._log_id = log_id
        self._epoch = epoch
        self._options = options
        self._submit = submit
        self._spare = spare
        self._pending: Future[Segment] | None = None
        self._tried_for = -1

    def prepare(self, active: Segment) -> None:
        """The active segment is half full: have the next one made. Once for each; an error shows in
        ``following``."""
        if self._submit is None or self._spare is not None or self._tried_for == active.base:
            return
        self._tried_for = active.base
        size = self._options.size_after(active.size)
        self._pending = self._submit(lambda: self._create(active, size))

    def following(self, active: Segment, batch_bytes: int) -> Segment:
        """The segment behind ``active``, with room for the batch. Raises OutOfSpace or OSError;
        then nothing changed."""
        needed = SEGMENT_HEADER_BYTES + batch_bytes
        spare = self._collect()
        # From here on a worker must not make one: under the same name, it would replace the segment
        # that is about to be used.
        self._tried_for = active.base
        if spare is None or spare.size < needed:
            size = max(self._options.size_after(active.size), whole_pages(needed))
            made = self._create(active, size, replace_spare=spare is not None)
            if spare is not None:
                spare.close()
            spare = made
        self._spare = None
        return spare

    def close(self) -> None:
        spare = self._collect()
        if spare is not None:
            spare.close()
        self._spare = None

    def _collect(self) -> Segment | None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            # A failure is not an answer to anybody yet: the segment is made again, and the error
            # shown, when needed.
            if pending.exception() is None:
                self._spare = pending.result()
        return self._spare

    def _create(self, active: Segment, size: int, *, replace_spare: bool = False) -> Segment:
        header = SegmentHeader(self._log_id, active.end, size, self._epoch)
        return create_segment(
            self._fs,
            self._directory,
            header,
            self._options.read_by,
            replace_spare=replace_spare,
        )
