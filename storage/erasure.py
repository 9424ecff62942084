"""Erasing: bodies become zeros, on purpose and on record.

    1. everything so far is synced; an ERASING record names each byte range; sync
    2. the ranges are zeroed, in the log and in the copies that recovery set aside; sync
    3. an ERASED record; sync

A header is never touched: that a turn was there, when, and how many tokens it had, stays. A body
that fails its checksum at a position so named is *erased*, not corrupt. An ERASING record without
its ERASED one is carried out again when the region is opened: every step can be repeated.

What erasing a whole session reaches: its turns, its name, its agents' names, the name of the parent
it was forked from, why its reflection failed, refusals that name it, and lost ranges that may hold
turns of it. The audit keeps a salted digest of the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from neverforget.storage import control
from neverforget.storage.annotating import Annotator, Name, check_runs
from neverforget.storage.appending import Appender
from neverforget.storage.batch import stage_batch
from neverforget.storage.control import ControlField, F, Range
from neverforget.storage.errors import (
    ConfirmationRequired,
    Conflict,
    Corrupt,
    NotFound,
)
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log_state import Ranges
from neverforget.storage.record import Header, encode_control
from neverforget.storage.region_state import RegionState
from neverforget.storage.repeats import Repeats
from neverforget.storage.results import ErasureView
from neverforget.storage.runs import Runs
from neverforget.storage.session_index import Session
from neverforget.storage.set_aside import ASIDE_DIRECTORY
from neverforget.storage.zeroing import record_erased, unreachable_objects, zero_ranges

CONFIRMED = "confirmed"
RANGES_MAX = 1_000_000  # of one ERASING record: 12 MB
SALT_BYTES = 16
_EVER_UNREACHABLE = "backups and exports made before it"


@dataclass(slots=True)
class _Plan:
    """What one erasure takes away. ``runs`` None: the whole session."""

    session: Session
    runs: Runs | None
    turns: list[Range] = field(default_factory=list)
    others: list[Range] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=lambda: [_EVER_UNREACHABLE])


class Eraser:
    """Erases at once: every method writes and syncs by itself."""

    def __init__(
        self,
        state: RegionState,
        repeats: Repeats,
        appender: Appender,
        annotator: Annotator,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._state = state
        self._repeats = repeats
        self._appender = appender
        self._annotator = annotator
        self._random_bytes = random_bytes

    def erase(
        self,
        name: Name,
        runs: Sequence[tuple[int, int]] | None,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: tuple[int, int],
    ) -> ErasureView:
        """See ``messages.Erase``. When it returns, the bytes are gone from the disk, power loss or
        not.

        Raises ConfirmationRequired (the refusal is on record then), NotFound, InvalidArgument,
        OutOfSpace with nothing erased, Poisoned with the erasure carried out at the next opening.
        """
        log = self._state.log
        if confirm != CONFIRMED:
            self._refuse(name, runs, by, reason)
        if self._state.unfinished and self._state.shipper is not None:
            self.complete_unfinished()  # the replica did not answer when that was asked
        again = self._answer_again(name, runs, by, reason, request)
        if again is not None:
            return again
        session, _ = self._state.index.find(*name)
        if session is None:
            raise NotFound(f"no session {name[1]!r} to erase")
        if runs is not None:
            check_runs(session, runs)
        plan = self._plan(session, name, None if runs is None else Runs(runs))
        plan.unreachable += unreachable_objects(self._state)
        # What is named must be durable, and known to be, before it is zeroed.
        log.write()
        log.sync()
        return self._carry_out(plan, name, by, reason, request)

    def complete_unfinished(self) -> int:
        """Carry out what a crash interrupted. How many there were."""
        state = self._state
        unfinished = dict(state.unfinished)
        for position, ranges in unfinished.items():
            header, body = state.control(position)
            runs = None if F[ControlField.DIGEST] in body else Runs(control.runs(body))
            self._zero(header.session_id, runs, ranges)
            record_erased(state, position)
        if state.shipper is not None:
            state.shipper.erasures_are_done()
        return len(unfinished)

    # ---- refusing and repeating ------------------------------------------------------------------

    def _refuse(
        self, name: Name, runs: Sequence[tuple[int, int]] | None, by: str, reason: str | None
    ) -> None:
        target: dict[str, object] = {"namespace": list(name[0]), "session": name[1]}
        if runs is not None:
            target["seqs"] = [list(run) for run in runs]
        self._annotator.refuse("erase", target, by, reason)
        self._state.log.write()
        self._state.log.sync()
        raise ConfirmationRequired(
            f"erasing from session {name[1]!r} cannot be undone; pass confirm=nf.CONFIRMED"
        )

    def _answer_again(
        self,
        name: Name,
        runs: Sequence[tuple[int, int]] | None,
        by: str,
        reason: str | None,
        request: tuple[int, int],
    ) -> ErasureView | None:
        repeated = self._repeats.request(*request)
        if repeated is None:
            return None
        position, header = repeated.records[0]
        if header.kind == Kind.ERASING:
            _, body = self._state.control(position)
            digest = body.get(F[ControlField.DIGEST])
            if digest is None:
                same = runs is not None and list(control.runs(body)) == list(Runs(runs))
                same = same and header.session_id == self._state.index.find(*name)[1]
            else:
                salt = body[F[ControlField.SALT]]
                same = runs is None and digest == control.salted_digest(salt, *name)
            said = (body.get(F[ControlField.BY]), body.get(F[ControlField.REASON]))
            if same and said == (by, reason):
                ranges = control.unpack_ranges(body[F[ControlField.RANGES]])
                positions = [p - HEADER_BYTES for p, _ in ranges]
                turns = body[F[ControlField.TURNS]]
                return ErasureView(
                    turns,
                    body[F[ControlField.BYTES]],
                    positions[:turns],
                    [_EVER_UNREACHABLE, *unreachable_objects(self._state)],
                    header.timestamp,
                )
        raise Conflict(
            f"request {request[0]:016x}/{request[1]} was used for something else before; a client "
            "must draw a new request id for each call"
        )

    # ---- planning --------------------------------------------------------------------------------

    def _plan(self, session: Session, name: Name, runs: Runs | None) -> _Plan:
        plan = _Plan(session, runs)
        wanted = Runs([(session.base, session.end - 1)] if session.end > session.base else ())
        for first, last in runs if runs is not None else wanted:
            for _, row in session.seqs_with_rows(first, last + 1):
                plan.turns += self._body_at(session.rows[row << 1])
        plan.others += self._lost_ranges(session, runs)
        texts = (session.extra.texts if session.extra is not None else None) or ()
        if runs is not None:
            plan.others += self._errors_about(runs, texts)
        else:
            for position in (session.opened_at, *texts):
                plan.others += self._body_at(position)
            self._plan_mentions(plan, name)
            turns = set(plan.turns)  # a session that lost its opening has a turn in its place
            plan.others = [r for r in plan.others if r not in turns]
        return plan

    def _body_at(self, position: int) -> Iterator[Range]:
        """The body's range, unless it is empty or erased already."""
        try:
            length = self._state.log.header(position).body_length
        except Corrupt:
            return  # rotten since the region was opened: the next opening quarantines it
        if length and not self._state.is_erased_at(position):
            yield position + HEADER_BYTES, length

    def _errors_about(self, runs: Runs, texts: Iterable[int]) -> Iterator[Range]:
        """Why the reflection of such turns was given up: it may quote them."""
        for position in texts:
            try:
                header, body = self._state.control(position)
                if header.kind != Kind.NOT_REFLECTED:
                    continue
                first, last = control.one_run(body)
            except Corrupt:
                continue  # erased already, or unreadable
            if any(runs.within(first, last + 1)):
                yield from self._body_at(position)

    def _plan_mentions(self, plan: _Plan, name: Name) -> None:
        """Records of others that name the session: refusals go, forks are named in the report."""
        state = self._state
        for position in state.audit.after(None):
            header = state.log.header(position)
            if header.kind not in (Kind.REFUSED, Kind.FORK):
                continue
            try:
                _, body = state.control(position)
            except Corrupt:
                continue
            if header.kind == Kind.REFUSED:
                target = body.get(F[ControlField.TARGET])
                if isinstance(target, dict) and (
                    target.get("session") == name[1]
                    and list(target.get("namespace", ())) == list(name[0])
                ):
                    plan.others += self._body_at(position)
            elif control.named(body) == name:
                child = state.index.by_id.get(header.session_id)
                if child is not None and child.name is not None:
                    plan.unreachable.append(
                        f"its name in session {child.name!r}, which was forked from it"
                    )

    def _lost_ranges(self, session: Session, runs: Runs | None) -> list[Range]:
        """Lost ranges that may hold turns to erase: the rows around them are not contiguous."""
        lost = self._state.lost
        if not lost:
            return []
        positions = np.array(session.rows[::2], np.uint64)
        found = []
        for start, stop in lost.ranges:
            row = int(np.searchsorted(positions, np.uint64(start))) - 1  # the last one before it
            low = session.seq_of_row(row) + 1 if row >= 1 else session.base
            high = session.seq_of_row(row + 1) if row + 1 < len(positions) else session.end
            behind = row + 1 == len(positions)
            if runs is None:
                affected = low < high or behind or session.name is None
            else:
                affected = low < high and any(runs.within(low, high))
            if affected and row >= 0:
                found.append((start, stop - start))
        return found

    # ---- carrying out ----------------------------------------------------------------------------

    def _carry_out(
        self, plan: _Plan, name: Name, by: str, reason: str | None, request: tuple[int, int]
    ) -> ErasureView:
        state, session = self._state, plan.session
        ranges = plan.turns + plan.others
        seq = self._appender.next_seq(session, session.session_id)
        body: control.Body = {F[ControlField.BY]: by}
        if reason is not None:
            body[F[ControlField.REASON]] = reason
        if plan.runs is None:
            salt = self._random_bytes(SALT_BYTES)
            body[F[ControlField.SALT]] = salt
            body[F[ControlField.DIGEST]] = control.salted_digest(salt, *name)
        else:
            body[F[ControlField.RUNS]] = [list(run) for run in plan.runs]
        n_bytes = sum(length for _, length in ranges)
        now = state.clock.now_us()
        first: int | None = None
        for at in range(0, max(len(ranges), 1), RANGES_MAX):
            part = ranges[at : at + RANGES_MAX]
            body[F[ControlField.RANGES]] = control.pack_ranges(part)
            body[F[ControlField.TURNS]] = len(plan.turns)
            body[F[ControlField.BYTES]] = n_bytes
            if first is not None:
                body[F[ControlField.ERASING]] = first  # the rest of a very large one
            record = encode_control(
                Kind.ERASING, session.session_id, seq, body, timestamp_us=now,
                producer=request[0], producer_seq=request[1],
            )  # fmt: skip
            position = stage_batch(state.log, record, [(0, session.session_id, seq)])
            if request[0]:
                state.requests.note(*request, position)
            state.log.write()
            state.log.sync()
            header = state.log.header(position)
            state.unfinished[position] = part
            state.note_erased(part)
            state.apply(header, position, body)
            state.erasures += 1
            self._zero(session.session_id, plan.runs, part)
            record_erased(state, position)
            first = position if first is None else first
        positions = [p - HEADER_BYTES for p, _ in plan.turns]
        return ErasureView(len(plan.turns), n_bytes, positions, plan.unreachable, now)

    def _zero(self, session_id: int, runs: Runs | None, ranges: Ranges) -> None:
        """Step 2. Repeating it changes nothing."""
        state = self._state

        def doomed(header: Header) -> bool:
            if header.session_id != session_id:
                return False
            return runs is None or (
                header.kind == Kind.NOT_REFLECTED
                or (header.kind == Kind.TURN and header.sequence_id in runs)
            )

        there = state.fs.exists(state.directory / ASIDE_DIRECTORY)
        said = set(self._said_in(ranges)) if there else set()

        def doomed_aside(header: Header) -> bool:
            if header.session_id != session_id or runs is None:
                return header.session_id == session_id
            return header.kind == Kind.NOT_REFLECTED or _said(header) in said

        zero_ranges(state, ranges, doomed, doomed_aside)

    def _said_in(self, ranges: Ranges) -> Iterator[tuple[int, ...]]:
        """By which what is erased is known where it stands under another seq."""
        for position, _ in ranges:
            try:
                yield _said(self._state.log.header(int(position) - HEADER_BYTES))
            except Corrupt:
                continue


def _said(header: Header) -> tuple[int, ...]:
    """What of a turn stays the same when it is brought back, or appended again."""
    return header.kind, header.timestamp, header.body_crc, header.body_length
