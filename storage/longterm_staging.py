"""Staging one atomic batch of long-term records, and knowing a request that was staged before.

The first record of a batch keeps a digest of what was asked. The same request id with the same
digest gets the original answer; with another it is a Conflict, never success.
"""

from __future__ import annotations

import hashlib
from itertools import accumulate
from typing import Any, NamedTuple

from neverforget.storage.batch import stage_batch
from neverforget.storage.content import encode_body
from neverforget.storage.control import Body
from neverforget.storage.errors import NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import Id, M, MemoryField, encode_memory_record
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.record import Header, encode_control, read_header
from neverforget.storage.repeats import Repeated, find_request, other_use
from neverforget.storage.salvage_bodies import Source, Sourced, brought_back_body

Request = tuple[int, int]
# What stands in a batch beside an entry of the audit: what was said about it, and what follows.
BESIDE = (Kind.ASKED, Kind.WORKED, Kind.WORKING_STATE)


class Planned(NamedTuple):
    kind: Kind
    about: Id
    body: Body
    role: int = 0


class Staged(NamedTuple):
    """``records``: (position, header, body) of each planned one. ``end`` must be durable."""

    records: list[tuple[int, Header, Body]]
    end: int


class Salvaged(NamedTuple):
    """``sources``: where the first of the planned records stood before, in order. ``at``: when they
    were made, microseconds UTC.
    """

    sources: list[Source]
    at: int


def request_digest(operation: str, arguments: Any) -> bytes:
    """Of plain values (text, numbers, lists, maps)."""
    asked = encode_body({0: operation, 1: arguments})
    return hashlib.blake2b(asked, digest_size=8).digest()


class Staging:
    """Owned by the region's thread."""

    def __init__(self, state: LongTermState) -> None:
        self._state = state

    def repeated(self, request: Request, digest: bytes) -> Repeated | None:
        """What was answered to this request before. Raises Conflict, NotFound, Corrupt."""
        repeated = find_request(self._state, *request)
        if repeated is None:
            return None
        position, _ = repeated.records[0]
        if self._state.is_erased_at(position):
            raise NotFound("what this request stored was erased since")
        _, body = self._state.control(position)
        if body.get(M[MemoryField.REQUEST]) != digest:
            raise other_use(*request)
        return repeated

    def stage(
        self,
        planned: list[Planned],
        request: Request,
        digest: bytes,
        salvaged: Salvaged | None = None,
    ) -> Staged:
        """Stage all of them as one batch, then let them count. Raises InvalidArgument, OutOfSpace,
        Poisoned; nothing has changed then. ``salvaged``: where they are brought back from.
        """
        staged = self.stage_only(planned, request, digest, salvaged)
        self.let_count(staged)
        return staged

    def stage_only(
        self,
        planned: list[Planned],
        request: Request,
        digest: bytes,
        salvaged: Salvaged | None = None,
    ) -> Staged:
        """As ``stage``, but without any effect in memory, for what must be durable first."""
        state = self._state
        planned = [*planned, *(Planned(*each) for each in state.working.follow(planned))]
        if request[0]:
            first = planned[0]
            planned[0] = first._replace(body=first.body | {M[MemoryField.REQUEST]: digest})
        now = state.clock.now_us() if salvaged is None else salvaged.at
        encoded = [
            encode_memory_record(kind, about, body, timestamp_us=now, request=request, role=role)
            for kind, about, body, role in planned
        ]
        buffer = bytearray() if salvaged is None else self._front(encoded, salvaged)
        front = len(buffer)
        places = [(0, 0, 0)] if front else []
        for (_, about, _, _), record in zip(planned, encoded):
            places.append((len(buffer), about.high, about.middle))
            buffer += record
        position = stage_batch(state.log, buffer, places, front)
        if front:
            state.salvages.note(position)
            places = places[1:]
        if request[0]:
            state.requests.note(*request, position + front)
        records = [
            (position + offset, read_header(buffer, offset), plan.body)
            for (offset, _, _), plan in zip(places, planned)
        ]
        return Staged(records, position + len(buffer))

    def _front(self, encoded: list[bytearray], salvaged: Salvaged) -> bytearray:
        offsets = [0, *accumulate(map(len, encoded))]
        sourced = [Sourced(at, source) for at, source in zip(offsets, salvaged.sources)]
        body = brought_back_body(sourced)
        now = self._state.clock.now_us()
        return encode_control(Kind.SALVAGED, 0, 0, body, timestamp_us=now)

    def let_count(self, staged: Staged) -> None:
        state = self._state
        state.turns += 1
        try:
            for position, header, body in staged.records:
                if header.kind != Kind.ASKED:  # what was said about a change; it changes nothing
                    state.apply(header, position, body)
        finally:
            state.turns += 1
        state.applied = staged.end
