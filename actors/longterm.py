"""The owner of the long-term store: a ``RegionOwner`` whose memories are searched.

Soon after a turn that changed something the indexes are told; at once when a recall comes, and
before what deletes is answered: no later recall finds what was deleted. An erasure is answered when
its words have left every derived file, too. Reads by id are answered in the loop; searches never
run in it, see ``longterm_searching``; another thread keeps the indexes, see ``longterm_indexing``;
a third has long memories chunked, see ``chunking``. Nothing that was acknowledged depends on any of
them: what is damaged of the derived files is made anew from the log and reported, and no caller
sees it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.actors import longterm_requests as requests
from neverforget.actors.checks import Checked
from neverforget.actors.chunker_pool import Member
from neverforget.actors.deriving import Derive, stage_derive
from neverforget.actors.embedding import Embedding
from neverforget.actors.group_commit import Mutations, outcome_unknown
from neverforget.actors.longterm_checks import CheckedLongTerm
from neverforget.actors.longterm_chunking import LongTermChunking
from neverforget.actors.longterm_deleting import Deletions, unknown
from neverforget.actors.longterm_deletion_requests import IN_SLICES, takes_bytes_away
from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_life import longterm_opening
from neverforget.actors.longterm_messages import LongTermStatusReply, Recall, Reindex
from neverforget.actors.longterm_promises import Promises
from neverforget.actors.longterm_searching import Recalls
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.longterm_status import index_status
from neverforget.actors.messages import AnyReply, Settle, Status
from neverforget.actors.places import LONGTERM
from neverforget.actors.ports import Pending
from neverforget.actors.recall_recording import RecallRecording
from neverforget.actors.region_owner import RegionOwner, nothing
from neverforget.actors.salvage_messages import Salvage
from neverforget.actors.salvage_requests import stage_salvage
from neverforget.actors.store_embedder import NONE, StoreEmbedder
from neverforget.actors.working_messages import Work
from neverforget.actors.working_requests import WorkingReads, WorkingRequests
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import InvalidArgument, NeverforgetError
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.longterm import LongTermRegion

if TYPE_CHECKING:
    from neverforget.storage.shipper import Shipper

__all__ = ["LONGTERM", "LongTerm", "LongTermSpec"]

# Telling the indexes costs as much for one memory as for many, and sets other threads to work while
# the next is to be remembered.
_NOTICE_S = 0.005


class LongTerm(RegionOwner[LongTermRegion]):
    """``embedding`` None: everything is found by words only. It is closed with the owner.
    ``chunkers`` makes a chunker; None: nothing is chunked here. ``lock`` and ``store_displaced``:
    as for a ``Partition``.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        embedding: Embedding | None,
        *,
        chunkers: Callable[[], Member] | None = None,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        lock: bool = True,
        store_displaced: Callable[[], str | None] = nothing,
    ) -> None:
        self.spec = spec
        self._fs = fs or LocalFileSystem()
        clock = clock or SystemClock()
        self._working = WorkingRequests(clock)
        super().__init__(
            spec,
            LONGTERM,
            longterm_opening(spec, self._fs, clock, lock, self._leave),
            clock,
            requests.STAGED
            | {Derive: stage_derive, Work: self._working.stage, Salvage: self._stage_salvage},
            requests.BY_ITSELF,
            lock,
            store_displaced,
        )
        self._given = embedding
        self._embedder = StoreEmbedder(
            self._fs,
            Path(spec.directory),
            spec.embedder,
            there=embedding is not None,
            monotonic=clock.monotonic,
        )
        self._turn = threading.Lock()
        self._indexing: Indexing | None = None
        self._chunking = LongTermChunking(
            spec, clock, chunkers, lambda: self._wake(), self._tell_news
        )
        self._recalls = Recalls(
            spec.fusion,
            embedding,
            self._embedder,
            spec.reply_bytes_max,
            clock,
            self.meter.recalls,
            self._tell_news,
        )
        self._recording = RecallRecording(clock.monotonic)
        self._promises = Promises()
        self._deletions = Deletions(IN_SLICES)
        self._news = False
        self._notice_at: float | None = None

    def close(self) -> None:
        """As any owner; does not wait for an embedder that hangs."""
        if self._given is not None:
            self._given.close()
        self._recalls.close()
        with self._turn:
            self._recording.end(self._life.region, self._life.error)
        super().close()

    def run(self, pendings: Sequence[Pending], send: Callable[[], None] = nothing) -> None:
        if any(type(pending.request) is not Status for pending in pendings):
            self._chunking.others_ask()
        self._run(pendings, send)

    def _run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None:
        with self._turn:
            super().run(pendings, send)

    def tick(self, send: Callable[[], None] = nothing) -> None:
        if self._notice_at is not None and self._notice_at <= self._clock.monotonic():
            with self._turn:
                self._notice()  # first: what an idle owner writes is no news
        super().tick(send)
        self._chunking.carry_out(lambda chunked: self._run(chunked, send))

    @property
    def indexing(self) -> Indexing | None:
        """What keeps the indexes of the open region."""
        return self._indexing

    @property
    def chunking(self) -> LongTermChunking:
        """What has its long memories chunked."""
        return self._chunking

    @property
    def deletions(self) -> Deletions:
        """Those of many memories that are under way or wait."""
        return self._deletions

    # ---- the indexes -----------------------------------------------------------------------------

    def _region_changed(self) -> None:
        region, error = self._life.region, self._life.error
        self._deletions.lose(unknown("the store was opened anew"), but_of=region)
        if region is None and error is not None:
            self._deletions.refuse(error)
        if region is None or (self._indexing is not None and self._indexing.region is region):
            return
        former = self._indexing
        self._indexing = Indexing(
            self.spec,
            self._fs,
            self._clock,
            region,
            self._given,
            self._embedder,
            self._turn,
            self._tell_news,
        )
        if former is not None and former.change.to is not None:
            self._indexing.change.ask(former.change.to)
        self._recalls.follow(self._indexing)
        self._indexing.start()
        self._chunking.follow(region)

    def _leave(self, region: LongTermRegion) -> None:
        """Nothing reads ``region`` any more when this returns, unless a thread hangs: an error is
        logged that names it. On whatever thread closes it.
        """
        indexing = self._indexing
        if indexing is not None and indexing.region is region:
            self._recalls.leave()
            self._chunking.leave(region)
            indexing.close()

    def _tell_news(self) -> None:
        self._news = True
        self._wake()

    def _due(self) -> float | None:
        if self._news or (len(self._deletions) and self._life.region is not None):
            return 0.0
        dues = (
            self._notice_at,
            self._chunking.deadline(),
            self._recalls.deadline(),
            self._recording.deadline(self._life.region, self._life.error),
            self._promises.deadline(self._clock.monotonic()),
        )
        return min((at for at in dues if at is not None), default=None)

    def _sync_and_prove(self, region: LongTermRegion, now: float) -> None:
        with self._turn:  # who stores a generation syncs as well
            super()._sync_and_prove(region, now)

    def _stage_salvage(self, region: LongTermRegion, r: Salvage) -> tuple[AnyReply, int]:
        self._notice_at = self._clock.monotonic()  # it may delete something
        return stage_salvage(region, r, busy=len(self._deletions) > 0)

    def _bring_back(self, region: LongTermRegion) -> None:
        if region.shipper is not None and not len(self._deletions):
            with self._turn:
                super()._bring_back(region)

    def _brought_back(self, region: LongTermRegion) -> None:
        self._notice()  # before anybody searches
        self._plan(region, True)

    def _pass_time(self, now: float) -> None:
        self._news = False
        self._recalls.look()
        if self._notice_at is not None and len(self._promises):
            with self._turn:
                self._notice()  # chunks are to be found as well
        self._keep_promises()

    def _notice(self) -> None:
        self._notice_at = None
        indexing = self._indexing
        if indexing is not None and indexing.region is self._life.region:  # not lost meanwhile
            indexing.notice()
            self._chunking.notice()

    def _keep_promises(self) -> None:
        if self._indexing is not None:
            self._promises.keep(self._indexing, chunked=self._chunking.idle)

    def _give_up(self, error: NeverforgetError) -> None:
        self._recalls.refuse(error)
        self._promises.close(error)
        self._deletions.refuse(error)

    def _lost(self, error: BaseException) -> None:
        self._deletions.lose(outcome_unknown(error))
        super()._lost(error)

    # ---- one turn --------------------------------------------------------------------------------

    def _acknowledged(self, region: LongTermRegion, mutations: Mutations[LongTermRegion]) -> None:
        if mutations.staged and self._notice_at is None:
            self._notice_at = self._clock.monotonic() + _NOTICE_S

    def _serve(self, region: LongTermRegion, pending: Pending) -> None:
        if not self._deletions.takes(pending):
            super()._serve(region, pending)

    def _go_on(self, region: LongTermRegion) -> None:
        if self._recording.is_due(self._life.error):
            with self._turn:
                self._plan(region, self._recording.record(region))
        if not len(self._deletions):
            return
        with self._turn:
            written = region.written
            done = self._deletions.step(region, self._life.error)
            if region.written != written:
                self._notice()  # before anybody searches
                self._plan(region, True)
            if done is not None:
                self._acted(region, *done)

    def _complete_erasures(self, shipper: Shipper) -> None:
        with self._turn:
            super()._complete_erasures(shipper)

    def _acted(self, region: LongTermRegion, pending: Pending, reply: AnyReply) -> None:
        request = pending.request
        self._notice()
        if isinstance(request, Settle):
            self._promises.when_settled(pending)
        elif takes_bytes_away(request):
            self._promises.when_clean(pending, reply, region.written)
        else:
            pending.reply(reply)
            return
        self._keep_promises()

    def _checked(self, region: LongTermRegion) -> Checked:
        return CheckedLongTerm(self._fs, region, self._indexing)

    def _read(self, region: LongTermRegion, pending: Pending) -> AnyReply | None:
        request = pending.request
        if isinstance(request, Recall):
            if self._notice_at is not None:
                self._notice()
            searched = self._recalls.ask(pending, request)
            if searched is not None and request.by:
                self._recording.count(region, searched, request.by)
            return None
        if isinstance(request, Reindex):
            return self._reindex(request)
        if isinstance(request, WorkingReads):
            return self._working.read(region, request)
        read = requests.READ.get(type(request))
        if read is None:
            raise InvalidArgument(f"{type(request).__name__} is not for the long-term owner")
        return read(region, request)

    def _reindex(self, request: Reindex) -> AnyReply:
        indexing = self._indexing
        assert indexing is not None, "the region is open"
        if request.begin:
            if self._life.error is not None:
                raise self._life.error
            if self._given is None and request.embedder != NONE:
                raise InvalidArgument("this owner was made without any embedders")
            indexing.change.ask(request.embedder)
        return indexing.change.reply(request.id, request.embedder)

    def _status(self, pending: Pending) -> LongTermStatusReply:
        if self._notice_at is not None:
            self._notice()  # what was just remembered waits for its vectors
        region, indexing = self._life.region, self._indexing
        waiting = len(self._held) + len(self._checks) + len(self._recalls) + len(self._promises)
        waiting += len(self._deletions)
        return LongTermStatusReply(
            pending.request.id,
            None if region is None else region.status(),
            None if region is None or indexing is None else index_status(indexing),
            self.state,
            self.reason,
            os.getpid(),
            self._queued - 1 + waiting,
            self._clients,
            self._chunking.status(),
            self.meter.measured(),
        )
