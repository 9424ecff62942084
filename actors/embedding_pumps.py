"""Bringing texts to the embedder and vectors to the index, a few batches at a time.

The indexer calls everything here; only the embedder is called in other threads, which may hang in
it. What an outage catches waits and is brought again; what cannot be embedded is told to the index
as failed. A text that alone gets no answer, time after time, while others do, is such a one. Long
texts are brought beside the batches of short ones, see ``long_texts``.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from neverforget.actors.embedder_checked import HARMLESS, Embedded
from neverforget.actors.embedding import Embedding
from neverforget.actors.long_texts import LongTexts
from neverforget.actors.ports import internal_error
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.actors.worker_threads import WorkerThreads
from neverforget.storage.errors import (
    EmbedderMismatch,
    InvalidArgument,
    NeverforgetError,
    Unavailable,
)
from neverforget.storage.longterm_index import LongTermIndex, Waiting

BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 1_000_000
IN_FLIGHT_MAX: Final = 2
EMBED_S: Final = 600.0  # a batch may have hundreds of windows, and a machine much else to do
TRIES_MAX: Final = 5
_PAUSE_S: Final = 1.0  # before a text is brought again that got no answer, times its tries
_END_S: Final = 0.5


class Description(NamedTuple):
    model: str
    dimension: int


class _Done(NamedTuple):
    """``batch`` empty: it was asked what it is. ``part``: of a long text."""

    batch: list[Waiting]
    outcome: Embedded | Description | NeverforgetError
    part: bool = False


class EmbeddingPumps:
    """``prepare`` makes of a memory what is embedded of it. ``wake``: a batch is done."""

    def __init__(
        self,
        embedding: Embedding,
        embedder: StoreEmbedder,
        prepare: Callable[[list[Waiting]], list[str]],
        monotonic: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._embedding = embedding
        self._embedder = embedder
        self._name, self.health = embedder.name, embedder.health
        self.described: Description | None = None
        self.wanted = False  # by a query; any thread sets it
        self._prepare = prepare
        self._monotonic = monotonic
        self._wake = wake
        self._threads = WorkerThreads("neverforget-pump", IN_FLIGHT_MAX + 1)
        self._done: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        self._in_flight = 0
        self._long = LongTexts(prepare)
        self._part_in_flight = False
        self._part_not_before = 0.0
        self._tries: dict[int, int] = {}  # by row
        self._later: list[tuple[float, Waiting]] = []  # taken, and not to be brought before

    def deadline(self) -> float | None:
        dues = [due for due, _ in self._later]
        if self._part_not_before > self._monotonic():
            dues.append(self._part_not_before)
        return min(dues, default=None)

    def close(self) -> None:
        """Does not wait for an embedder that hangs."""
        self._threads.close(_END_S)

    def go_over(self, embedder: StoreEmbedder) -> None:
        """The store has gone over to the embedder that is asked here already."""
        assert embedder.name == self._name
        self._embedder, self.health = embedder, embedder.health

    # ---- handing out -----------------------------------------------------------------------------

    def hand_out(self, index: LongTermIndex) -> None:
        """Give waiting texts to whatever pump is free."""
        self._put_back_due(index)
        if not self._embedder.known:
            if index.waiting or self.wanted:  # else it need not be started
                self._describe()
            return
        while self._in_flight < IN_FLIGHT_MAX and self._may_try():
            batch = self._take(index)
            if not batch:
                break
            if not self._bring(batch, self._prepare(batch)):
                return
            self._in_flight += 1
        if not self._part_in_flight and self._may_try():
            self._hand_out_part(index)

    def _may_try(self) -> bool:
        """While it fails, one batch finds out whether it answers again."""
        fails = self.health.state != "ok"
        return self.health.may_try() and not (fails and (self._in_flight or self._part_in_flight))

    def _hand_out_part(self, index: LongTermIndex) -> None:
        if self._part_not_before > self._monotonic():
            return
        part = self._long.part(index)
        if part is not None:
            assert self._long.current is not None
            self._part_in_flight = self._bring([self._long.current], [part], part=True)

    def _bring(self, batch: list[Waiting], texts: list[str], *, part: bool = False) -> bool:
        """False: nothing is done any more."""
        if self.health.state != "ok" or any(one.row in self._tries for one in batch):
            texts.append(HARMLESS)  # tells a bad text from an embedder that is down
        return self._threads.submit(partial(self._run, batch, texts, part))

    def _describe(self) -> None:
        """First it says what it is: vectors of another model are worse than none."""
        if self._in_flight or self.described or not self.health.may_try():
            return
        if self._threads.submit(self._ask_what_it_is):
            self._in_flight += 1

    def _ask_what_it_is(self) -> None:
        outcome: Description | NeverforgetError
        try:
            outcome = Description(*self._embedding.describe(self._name))
        except NeverforgetError as error:
            outcome = error
        except Exception as error:
            outcome = internal_error(error)
        self._done.put(_Done([], outcome))
        self._wake()

    def _take(self, index: LongTermIndex) -> list[Waiting]:
        """The next short ones."""
        while taken := index.take_waiting(BATCH_TEXTS, BATCH_CHARACTERS):
            for one in taken:
                if LongTexts.is_one(one):
                    self._long.set_aside(one)
            if short := [one for one in taken if not LongTexts.is_one(one)]:
                return short
        return []

    def _put_back_due(self, index: LongTermIndex) -> None:
        now = self._monotonic()
        for due, one in self._later:
            if due <= now:
                index.put_back(one)
        self._later = [(due, one) for due, one in self._later if due > now]

    def _run(self, batch: list[Waiting], texts: list[str], part: bool) -> None:
        outcome: Embedded | NeverforgetError
        try:
            outcome = self._embedding.embed(self._name, texts, urgent=False, deadline_s=EMBED_S)
        except NeverforgetError as error:
            outcome = error
        except Exception as error:
            outcome = internal_error(error)
        self._done.put(_Done(batch, outcome, part))
        self._wake()

    # ---- taking back -----------------------------------------------------------------------------

    def take_back(self, index: LongTermIndex) -> bool:
        """Apply what is done. True: something has changed."""
        changed = False
        while True:
            try:
                batch, outcome, part = self._done.get_nowait()
            except queue.Empty:
                return changed
            if part:
                self._part_in_flight = False
            else:
                self._in_flight -= 1
            changed = True
            if isinstance(outcome, Description):
                self.described = outcome
                continue
            if (error := _mismatch(index, outcome)) is not None:
                self.health.failed(error)
                for one in [] if part else batch:
                    index.put_back(one)
                continue
            assert isinstance(outcome, Embedded)
            if part:
                self._apply_part(index, batch[0], outcome)
            else:
                self._apply(index, batch, outcome)
            self._judge(outcome)

    def _apply(self, index: LongTermIndex, batch: list[Waiting], outcome: Embedded) -> None:
        went = len(outcome.owners) > 0
        for at, one in enumerate(batch):
            if (reason := outcome.failed.get(at)) is not None:
                self._fail(index, one, reason)
            elif (reason := outcome.waiting.get(at)) is not None:
                self._wait(index, one, reason, went)
            else:
                try:
                    index.embedded(one, outcome.vectors[outcome.owners == at])
                    self._tries.pop(one.row, None)
                except InvalidArgument as error:
                    self._fail(index, one, error.message)

    def _apply_part(self, index: LongTermIndex, one: Waiting, outcome: Embedded) -> None:
        """Of a long text: what fails takes the rest with it, what waits is brought again."""
        reason = outcome.failed.get(0)
        if reason is None and (waits := outcome.waiting.get(0)) is not None:
            if not len(outcome.owners):
                return  # the embedder is down: that says nothing of this text
            tries, reason = self._tried(one, waits)
            if reason is None:
                self._part_not_before = self._monotonic() + tries * _PAUSE_S
                return
        if reason is not None:
            self._fail(index, self._long.failed(), reason)
            return
        self._tries.pop(one.row, None)
        try:
            self._long.done(index, outcome.vectors[outcome.owners == 0])
        except InvalidArgument as error:
            self._fail(index, one, error.message)

    def _judge(self, outcome: Embedded) -> None:
        if len(outcome.owners) or not outcome.waiting:
            self.health.went_well()
        else:
            reason = next(iter(outcome.waiting.values()))
            self.health.failed(Unavailable(reason, outcome="not_applied"))

    def _fail(self, index: LongTermIndex, one: Waiting, reason: str) -> None:
        self._tries.pop(one.row, None)
        index.failed(one, reason)

    def _wait(self, index: LongTermIndex, one: Waiting, reason: str, others_went: bool) -> None:
        if not others_went:  # the embedder is down: that says nothing of this text
            index.put_back(one)
            return
        tries, hopeless = self._tried(one, reason)
        if hopeless is not None:
            self._fail(index, one, hopeless)
        else:
            self._later.append((self._monotonic() + tries * _PAUSE_S, one))

    def _tried(self, one: Waiting, reason: str) -> tuple[int, str | None]:
        """How often in vain; and why it is given up, if it is."""
        tries = self._tries[one.row] = self._tries.get(one.row, 0) + 1
        return tries, f"no answer for it, {tries} times: {reason}" if tries >= TRIES_MAX else None


def _mismatch(
    index: LongTermIndex, outcome: Embedded | NeverforgetError
) -> NeverforgetError | None:
    """Why nothing of it can be used."""
    if isinstance(outcome, NeverforgetError):
        return outcome
    if index.vectors is None:
        return EmbedderMismatch("vectors came for a store that keeps none")
    dimension = index.vectors.dimension
    if len(outcome.vectors) and outcome.vectors.shape[1] != dimension:
        return EmbedderMismatch(
            f"the embedder gives vectors of {outcome.vectors.shape[1]} dimensions, this store "
            f"holds {dimension}; open it with the former embedder, or reindex"
        )
    return None
