"""The start of an owner: the last object, the fence behind it, and what the local log lacks.

    looking -> last object read -> epoch persisted -> fence put -> objects compared -> caught up

A fence whose number is taken by somebody else: look again. Between its fence and everything being
caught up an owner serves nothing that it did not serve before. What stands in the local log where
the objects hold other records was never acknowledged as "replica": it is set aside, to be salvaged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from neverforget.storage.shipping_asking import Asking, ShippingOptions
from neverforget.storage.shipping_events import (
    Action,
    Apply,
    Compare,
    Compared,
    Done,
    Fetch,
    Fetched,
    HeaderRead,
    Level,
    Look,
    Looked,
    Persisted,
    PersistEpoch,
    Put,
    PutAnswered,
    ReadHeader,
    Serve,
    SetAside,
    Stop,
)
from neverforget.storage.shipping_finding import Galloping
from neverforget.storage.shipping_object import (
    Author,
    ObjectHeader,
    ObjectKind,
    check_origin,
    decode_header,
    encode_fence,
)


class LocalLog(NamedTuple):
    """``tail``: end of its last record, all of it durable; 0: it has none. ``shipped`` and
    ``number``: the pair that the last ``Shipped`` notice said, kept beside this very log (0, 0:
    none is known): below that position it holds what the objects up to that number hold.
    ``expects``: this log was shipped before, by whatever disk, so that objects must be there.
    ``takes_over``: it was told to serve this log from here, whoever served it last; else it does so
    only where that was an owner of the same place, or of a lower term than its author's: a term
    takes the log over from those before it, and, however often it starts, from none after it.
    """

    tail: int
    shipped: int = 0
    number: int = 0
    expects: bool = False
    takes_over: bool = False


class Starting(Asking, ABC):
    """``number``: the last object that is known to exist. ``epoch``: this owner's, once fenced.

    ``level`` rises to EVERYTHING when all is caught up; ``stopped`` is final.
    """

    def __init__(self, author: Author, local: LocalLog, options: ShippingOptions) -> None:
        super().__init__(options)
        self.level = Level.NOTHING
        self.stopped: Stop | None = None
        self.number = 0
        self.epoch = 0
        self._author = author
        self._told_term = author.term
        self._local = local
        self._tail = local.tail
        self._galloping = Galloping(local.number)
        self._last: ObjectHeader | None = None  # of the object in front of the fence
        self._wall_us = 0
        self._walk_at = self._walk_end = 0  # the next object to look at, and the last
        self._known_until = 0  # up to this one the log is said to hold what they hold
        self._walked = 0  # the position up to which the local log holds what the objects hold

    @property
    def catching_up_to(self) -> int:
        """The last object that will be looked at, one after the other; 0: not known yet."""
        return self._walk_end

    def _begin(self) -> list[Action]:
        if self._local.number:
            return self._ask(Look(0, self._local.number), self._known_looked)
        return self._look()

    @abstractmethod
    def _caught_up(self, position: int) -> list[Action]:
        """The local log holds everything that objects hold, which is up to ``position``."""

    # ---- the last object -------------------------------------------------------------------------

    def _known_looked(self, answer: Looked) -> list[Action]:
        if not answer.exists:
            return self._refuse(
                f"object {self._local.number} was put and is not there: another bucket, or objects "
                "were removed"
            )
        return self._look()

    def _look(self) -> list[Action]:
        number = self._galloping.next
        if number is not None:
            return self._ask(Look(0, number), self._looked)
        self.number = self._galloping.last
        if not self.number:
            if self._local.expects:
                return self._refuse(
                    "no object of this log is there: another bucket, or an empty one"
                )
            return self._persist(0)
        return self._ask(ReadHeader(0, self.number), self._last_read)

    def _looked(self, answer: Looked) -> list[Action]:
        self._galloping.answer(answer.exists)
        return self._look()

    def _last_read(self, answer: HeaderRead) -> list[Action]:
        wrong = check_origin(answer.header, self._author, self.number)
        if wrong is not None:
            return self._refuse(wrong)
        last = self._last = answer.header
        told = self._local.takes_over or last.term < self._told_term
        if last.place != self._author.place and not told:
            return self._stop(
                Stop(
                    "fenced",
                    f"this log is served from another place since epoch {last.epoch}; a failover "
                    "brings it back here",
                )
            )
        # What was told elsewhere meanwhile is known there and must stay known.
        self._author = self._author._replace(term=max(self._told_term, last.term))
        return self._persist(last.epoch)

    # ---- the fence -------------------------------------------------------------------------------

    def _persist(self, at_least: int) -> list[Action]:
        return self._ask(PersistEpoch(0, at_least), self._persisted)

    def _persisted(self, answer: Persisted) -> list[Action]:
        assert answer.epoch > (self._last.epoch if self._last else 0), "epochs grow"
        self.epoch = answer.epoch
        self._wall_us = answer.now_us
        return self._fence()

    def _fence(self) -> list[Action]:
        position = self._last.stop if self._last else 0
        self._fence_bytes = encode_fence(
            self._author, self.number + 1, self.epoch, position, self._wall_us
        )
        return self._ask(Put(0, self.number + 1, self._fence_bytes), self._fence_put)

    def _fence_put(self, answer: PutAnswered) -> list[Action]:
        if answer.created:
            return self._fenced()
        return self._ask(ReadHeader(0, self.number + 1), self._fence_read)

    def _fence_read(self, answer: HeaderRead) -> list[Action]:
        if answer.header.first_put == decode_header(self._fence_bytes).first_put:
            return self._fenced()
        self._galloping = Galloping(self.number + 1)
        return self._look()

    def _fenced(self) -> list[Action]:
        """No object of an older owner comes any more."""
        self._walk_end = self.number
        self.number += 1
        return self._take_over()

    def _take_over(self) -> list[Action]:
        """From what is known on, and the last run of that, which tells: a mark that was copied from
        elsewhere, or stands beside the log of another time, is not what it says.
        """
        self._walk_at = self._local.number + 1
        self._walked = self._local.shipped
        if not self._walked:
            return self._walk()
        return self._ask(ReadHeader(0, self._local.number), self._stepped_back)

    def _stepped_back(self, answer: HeaderRead) -> list[Action]:
        header = answer.header
        wrong = check_origin(header, self._author, header.number)
        if wrong is not None:
            return self._refuse(wrong)
        # The log's end may have been lost since (rot in the last group).
        if header.start >= min(self._tail, self._local.shipped) and header.number > 1:
            # 1, 2, 4, … numbers back.
            back = 2 * (self._local.number - header.number) or 1
            return self._ask(ReadHeader(0, max(1, self._local.number - back)), self._stepped_back)
        self._walk_at, self._walked = header.number, header.start
        self._known_until = self._local.number
        return self._walk_read(answer) if self._tail > self._walked else self._walk()

    # ---- catching up -----------------------------------------------------------------------------

    def _walk(self) -> list[Action]:
        if self._walk_at > self._walk_end:
            return self._caught_up(self._last.stop if self._last else 0)
        if self._tail <= self._walked:  # nothing stands behind that could be compared
            return self._fetch()
        return self._ask(ReadHeader(0, self._walk_at), self._walk_read)

    def _walk_read(self, answer: HeaderRead) -> list[Action]:
        header = self._header = answer.header
        wrong = self._out_of_place(header)
        if wrong is not None:
            return self._refuse(wrong)
        if header.kind == ObjectKind.FENCE:
            return self._agreed(header)
        return self._ask(Compare(0, header, self._walked), self._compared)

    def _out_of_place(self, header: ObjectHeader) -> str | None:
        wrong = check_origin(header, self._author, self._walk_at)
        if wrong is None and header.stop < self._walked:
            wrong = f"object {header.number} ends at {header.stop}, before {self._walked}"
        return wrong

    def _compared(self, answer: Compared) -> list[Action]:
        return self._agreed(self._header) if answer.same else self._fetch()

    def _fetch(self) -> list[Action]:
        return self._ask(Fetch(0, self._walk_at, self._walked), self._fetched)

    def _fetched(self, answer: Fetched) -> list[Action]:
        header = self._header = answer.header
        wrong = self._out_of_place(header)
        if wrong is not None:
            return self._refuse(wrong)
        agrees = answer.same_until >= header.stop and not answer.other
        if agrees or header.kind == ObjectKind.FENCE:
            return self._agreed(header)
        if header.number <= self._known_until and answer.same_until < self._tail:
            self._known_until = self._walked = 0  # nothing is known: they may part in front of it
            self._walk_at = 1
            return self._walk()
        if self.level != Level.NOTHING:
            return self._stop(
                Stop("restart", f"the local log lacks what object {header.number} holds")
            )
        self._apply_from = answer.same_until
        if answer.other:
            return self._ask(SetAside(0, answer.same_until), self._set_aside)
        return self._apply()

    def _set_aside(self, answer: Done) -> list[Action]:
        self._tail = self._apply_from
        return self._apply()

    def _apply(self) -> list[Action]:
        # They may part where the run before ended, and this one begin in the next segment.
        question = Apply(0, self._walk_at, max(self._apply_from, self._header.start))
        return self._ask(question, self._applied)

    def _applied(self, answer: Done) -> list[Action]:
        self._tail = max(self._tail, self._header.stop)
        return self._agreed(self._header)

    def _agreed(self, header: ObjectHeader) -> list[Action]:
        self._walked = max(self._walked, header.stop)
        self._walk_at += 1
        return self._walk()

    # ---- levels and ends -------------------------------------------------------------------------

    def _unreachable(self, now_us: int) -> list[Action]:
        """A lower level for a starting owner whose store has not answered for long enough."""
        failure = self.failure
        if self.level != Level.NOTHING or failure is None or self.stopped is not None:
            return []
        since_us, why = failure
        if now_us - since_us < self._options.unreachable_after_us:
            return []
        # Where objects are known to hold more, its next record would stand where they hold another.
        held = max(self._local.shipped, self._last.stop if self._last else 0)
        writes = self._options.write_without_store and self._tail >= held
        return self._serve(
            Level.UNFENCED if writes else Level.READS, f"the object store does not answer: {why}"
        )

    def _serve(self, level: Level, reason: str) -> list[Action]:
        self.level = level
        return [Serve(level, reason)]

    def _refuse(self, reason: str) -> list[Action]:
        return self._stop(Stop("refused", reason))

    def _stop(self, stop: Stop) -> list[Action]:
        self.stopped = stop
        self.level = Level.NOTHING
        return [stop]
