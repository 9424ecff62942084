"""Carrying out again what an old log holds and the log that counts lacks, whatever its records are.

    pieces of the old log -> batches -> known already? -> staged, behind a SALVAGED record

Each batch that is staged begins with a SALVAGED record, which says where the records behind it
stood before (their sources). So a salvage may end at any point and be begun again, by whatever way
the old log comes: what is known by its source, or by the request or key of its client, is not
staged again. What cannot be carried out on what is there now is put on record and reported.

Owned by the region's thread. Nothing is written here: see ``LogOwner.write`` and ``sync``.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from neverforget.storage import control
from neverforget.storage.batch import end_of, stage_batch
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Conflict, Corrupt, InvalidArgument, NotFound
from neverforget.storage.format import Kind
from neverforget.storage.log_state import LogState
from neverforget.storage.record import Header, body_of, encode_control
from neverforget.storage.salvage_bodies import (
    Sourced,
    brought_back_body,
    on_record_body,
    sources_in,
)
from neverforget.storage.salvage_reading import OldRecord, batches_in, erased_in
from neverforget.storage.salvage_readings import Brought
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.shipping_salvage import Fate, fates_of
from neverforget.storage.slices import Slices

log = logging.getLogger(__name__)
BY: Final = "salvage"
_SLICE: Final = 64  # records looked at between two yields: 2 ms
_BEGIN_AGAIN: Final = "another piece of the old log is to come first; begin again with its first"


class CannotBeSalvaged(Exception):
    """Says why, in words that quote nobody."""


class Salvaging(ABC):
    """Of one reading; ``report``: of what it has taken."""

    def __init__(self, state: LogState, brought: Brought) -> None:
        self._log_state = state
        self._stream: tuple[int, int] | None = None  # and the index of the piece that comes next
        self._brought = brought.places
        self._said = brought.said
        self._load = brought.load
        self._did = False
        self.parting = 0
        self.report = SalvageReport()

    def take(self, piece: Piece) -> Slices[SalvageReport]:
        """Stage what is to come of a piece; what became of it, at the last one of all of them.

        Raises Conflict where the piece is not the next one, InvalidArgument for that of another
        log, UnsupportedFormat, Corrupt; OutOfSpace, Poisoned: begin again when that is over.
        """
        self._begin(piece)
        report = SalvageReport(dropped=len(piece.erased), unreadable=piece.unreadable)
        before, self.report = self.report, report
        for header in erased_in(piece):
            self._note_erased(header)
        looked = 0
        for batch in batches_in(piece):
            report.records += len(batch)
            self._batch(batch)
            looked += len(batch)
            if looked >= _SLICE:
                looked = 0
                yield
        yield from self._rest()
        before.add(report)
        self.report = before
        self._stream = (piece.stream, piece.index + 1)
        if not piece.last:
            return report
        self._end()
        return self.report

    def _begin(self, piece: Piece) -> None:
        state = self._log_state
        if piece.log_id != state.log_id:
            raise InvalidArgument(f"a piece of log {piece.log_id:016x}, not {state.log_id:016x}")
        if piece.parting > state.log.tail:
            raise InvalidArgument("a piece from behind the end of the log: what of it is missing?")
        stream, following = self._stream or (None, 0)
        coming = piece.stream == stream and following - 1 <= piece.index <= following
        if piece.index and not coming:  # the one before it may be told twice
            raise Conflict(_BEGIN_AGAIN)
        self._stream = None  # until this one is taken
        if piece.index:
            return
        self.parting = piece.parting
        self.report = SalvageReport()
        self._did = False
        self._load(piece.parting)
        self._forget()

    def _end(self) -> None:
        self._stream = None
        done = self.report
        if not self._did:
            return  # an earlier one had come to its end
        details = {name: getattr(done, name) for name in done.__struct_fields__}
        self._put_on_record(0, 0, on_record_body(BY, details, by=BY))
        said = ", ".join(f"{count:,} {name}" for name, count in details.items() if count)
        self._report("salvaged", "repaired", f"of what was never shipped: {said}")

    def _batch(self, batch: Sequence[OldRecord]) -> None:
        fates = fates_of([each.header.kind for each in batch])
        whole = len(batch)
        batch = [each for each, fate in zip(batch, fates) if fate is not Fate.DROP]
        self.report.dropped += whole - len(batch)
        if not batch:
            return
        end = self._log_state.log.tail
        try:
            self._carry_out(_traced(batch))
        except CannotBeSalvaged as error:
            self.conflict(batch[0], str(error))
        except (Conflict, Corrupt, InvalidArgument, NotFound) as error:
            # What it says may quote somebody, and would be out of reach for an erasure.
            self.conflict(batch[0], f"it is refused here ({type(error).__name__})")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Sound bytes that say nothing we know. Raised, they would end the owner, and the next
            # one, each time that they come.
            if self._log_state.log.tail != end:
                raise  # what is staged is in doubt
            log.exception("a batch at %d of an old log cannot be read", batch[0].position)
            self.conflict(batch[0], f"it cannot be read here ({type(error).__name__})")

    # ---- of one tier -----------------------------------------------------------------------------

    @abstractmethod
    def _carry_out(self, batch: Sequence[OldRecord]) -> None:
        """Stage it, or remember it for ``_rest``. Raises what makes it a conflict, with nothing
        staged.
        """

    @abstractmethod
    def _note_erased(self, header: Header) -> None:
        """A record whose body is gone, for what names it later."""

    def _rest(self) -> Slices[None]:
        """What was not staged yet, at the end of a piece."""
        yield from ()

    @abstractmethod
    def _forget(self) -> None:
        """It begins, with ``parting``; perhaps again."""

    # ---- what is known ---------------------------------------------------------------------------

    def place_of(self, record: OldRecord) -> int | None:
        """Where it stands by now, if it was brought back before, or never was away."""
        place = self._brought.get(record.source)
        if place is not None or record.position >= self._log_state.log.tail:
            return place
        try:
            header = self._log_state.log.header(record.position)
        except Corrupt:
            return None  # no record begins there
        return record.position if header == record.header else None

    def note_brought(self, end: int, sourced: Sequence[Sourced]) -> None:
        """``end``: of the SALVAGED record of the batch."""
        self._did = True
        for behind, source in sourced:
            self._brought[source] = end + behind

    # ---- what is put on record -------------------------------------------------------------------

    def conflict(
        self, record: OldRecord, why: str, operation: str | None = None, *, brought: bool = False
    ) -> None:
        """What the old owner had acknowledged cannot be done here: say so, durably, once.
        ``brought``: it can be all the same, but for what ``why`` says, and is to be known only when
        that was staged.
        """
        self.report.conflicts += 1
        self.say(record, {"conflict": why, **({"brought": True} if brought else {})}, operation)
        self._report("salvage_conflict", "error", f"{why} (it stood at {record.position})")

    def settle(self, record: OldRecord) -> None:
        """There is nothing to do, as things stand now: that is not asked again later."""
        self.report.came_again += 1
        body = brought_back_body([Sourced(-1, record.source)])
        self._brought[record.source] = self._put_down(0, 0, body)

    def say(
        self, record: OldRecord, details: Mapping[str, Any], operation: str | None = None
    ) -> None:
        if record.source in self._said:
            return
        try:
            body = control.read_body(body_of(record.record))
        except Corrupt:
            body = {}
        by, reason = self._told_by(record, body)
        what = on_record_body(
            operation or Kind(record.header.kind).name.lower(),
            {"epoch": record.header.epoch, **details},
            by=by if isinstance(by, str) else BY,
            reason=reason if isinstance(reason, str) else None,
            source=record.source,
        ) | self._naming(record)
        position = self._put_on_record(*self._about(record), what)
        self._said.add(record.source)
        if "brought" not in details:
            self._brought[record.source] = position

    def _told_by(self, record: OldRecord, body: Body) -> tuple[object, object]:
        """Who did it, and why."""
        return body.get(F[ControlField.BY]), body.get(F[ControlField.REASON])

    def _naming(self, record: OldRecord) -> Body:
        """Whom it was about, for what is said about a record."""
        return {}

    def _about(self, record: OldRecord) -> tuple[int, int]:
        """(session, seq) or their like, for the header of what is said about a record."""
        return 0, 0

    def _put_on_record(self, session_id: int, seq: int, body: Body) -> int:
        position = self._put_down(session_id, seq, body)
        self._log_state.audit.note(position)
        return position

    def _put_down(self, session_id: int, seq: int, body: Body) -> int:
        state = self._log_state
        now = state.clock.now_us()
        record = encode_control(Kind.SALVAGED, session_id, seq, body, timestamp_us=now)
        position = stage_batch(state.log, record, [(0, session_id, seq)])
        state.salvages.note(position)
        self._did = True
        return position

    def _report(self, kind: str, severity: str, message: str) -> None:
        state = self._log_state
        finding = state.finding(kind, state.log.tail, 0, message)
        state.report(msgspec.structs.replace(finding, severity=severity))


def _traced(batch: Sequence[OldRecord]) -> list[OldRecord]:
    """What an earlier salvage had brought into the old log itself is what it was at first."""
    first = batch[0]
    if first.header.kind != Kind.SALVAGED:
        return list(batch)
    end = end_of(first.position, first.header)
    body = control.read_body(body_of(first.record))
    sources = {end + behind: source for behind, source in sources_in(body)}
    return [each._replace(was=sources.get(each.position)) for each in batch]
