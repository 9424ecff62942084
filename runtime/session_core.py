"""What ``Session`` and ``AsyncSession`` share: everything but waiting."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from neverforget.runtime import session_reading as reading
from neverforget.runtime import session_writing as writing
from neverforget.runtime.arguments import (
    checked_limit,
    checked_roles,
    checked_seq,
    sync_code,
    whole,
)
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.engine import Lease
from neverforget.runtime.operation import Context, Operation, SessionPlace
from neverforget.runtime.scope import Scope, checked_name, doer
from neverforget.runtime.session_reading import Piece
from neverforget.runtime.session_tail import tail
from neverforget.runtime.values import ErasureReport, Page, Turn
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import SEQ_MAX

if TYPE_CHECKING:
    from neverforget.runtime.address import StoreAddress

NOTHING: Mapping[str, Any] = MappingProxyType({})
STREAM_LIMIT = 200  # turns fetched at a time while iterating
FOLLOW_WAIT_S = 20.0  # how long one question for newer turns waits
TOKENS_MAX = 2**62


class SessionAddress(Struct, frozen=True):
    """How a session travels: its store's address and its names."""

    store: StoreAddress
    namespace: tuple[str, ...]
    name: str
    agent: str | None


class SessionCore:
    """The parts of a session's handle that need no answer from an owner."""

    def __init__(self, lease: Lease, scope: Scope, place: SessionPlace, agent: str | None) -> None:
        self._lease = lease
        self._scope = scope
        self._place = place
        self._agent = scope.agent if agent is None else checked_name(agent, "agent")
        self._owns_lease = False

    @property
    def _context(self) -> Context:
        return self._lease.engine.context

    @property
    def name(self) -> str:
        """The session's name."""
        return self._place.name

    @property
    def namespace(self) -> tuple[str, ...]:
        """The session's namespace, absolute."""
        return self._place.namespace

    @property
    def agent(self) -> str | None:
        """Whose turns this handle appends."""
        return self._agent

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        if self.namespace:
            parts.append(f"namespace={tuple(self.namespace)!r}")
        if self._agent is not None:
            parts.append(f"agent={self._agent!r}")
        return f"<{type(self).__name__} {', '.join(parts)} of {self._lease.engine.path}>"

    def __bool__(self) -> bool:
        return True  # also when it has no turn yet: a handle is not a list

    def __eq__(self, other: object) -> bool:
        """Handles on the same session of the same store, for the same agent, are equal."""
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, SessionCore)
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        engine = self._lease.engine
        return engine.path, engine.store_id, self.namespace, self.name, self._agent

    def _pickled(self) -> SessionAddress:
        self._lease.check()  # here, and not where it arrives: there nobody knows what was closed
        from neverforget.runtime.address import StoreAddress

        store = StoreAddress.of(self._lease.engine, self._scope)
        return SessionAddress(store, self._place.namespace, self._place.name, self._agent)

    def _doer(self, by: str | None = None) -> str:
        return doer(by, self._agent)

    def _seq_after(self, after: str | int | None) -> int:
        """The seq after which to read: a cursor's, a turn's, or the beginning."""
        if after is None:
            return -1
        if isinstance(after, str):
            return self._place.seq_at(after)
        return checked_seq(after, "after", -1)

    # ---- operations ------------------------------------------------------------------------------

    def _append(
        self,
        role: str,
        content: Any,
        name: str | None,
        call_id: str | None,
        metadata: Mapping[str, Any] | None,
        timestamp: Any,
        token_count: int | None,
        key: str | None,
        expect_seq: int | None,
        sync: SyncLevel | None,
    ) -> Operation[Turn]:
        return writing.append(
            self._lease.engine.context,
            self._place,
            self._agent,
            sync_code(sync, self._scope.sync),
            role,
            content,
            name,
            call_id,
            metadata,
            timestamp,
            token_count,
            key,
            expect_seq,
        )

    def _append_many(
        self, turns: Any, expect_seq: int | None, sync: SyncLevel | None
    ) -> Operation[list[Turn]]:
        level = sync_code(sync, self._scope.sync)
        return writing.append_many(
            self._context, self._place, self._agent, level, turns, expect_seq
        )

    def _tail(
        self, limit: int, max_tokens: int | None, roles: Any, include_hidden: bool
    ) -> Operation[list[Turn]]:
        if max_tokens is not None:
            max_tokens = whole(max_tokens, "max_tokens", 0, TOKENS_MAX)
        return tail(
            self._context,
            self._place,
            checked_limit(limit),
            max_tokens,
            checked_roles(roles),
            bool(include_hidden),
        )

    def _page(
        self,
        after: str | int | None,
        before: str | int | None,
        newest: bool,
        limit: int,
        include_hidden: bool,
    ) -> Operation[Page[Turn]]:
        limit = checked_limit(limit)
        if after is not None and before is not None:
            raise InvalidArgument("a page goes on after a turn or before one, not both")
        if newest and (after is not None or before is not None):
            raise InvalidArgument("newest is where a page begins; leave it out with a cursor")
        if before is None and not newest:
            piece = yield from reading.forward(
                self._context, self._place, self._seq_after(after), limit, bool(include_hidden)
            )
        else:
            stop = None
            if isinstance(before, str):
                stop = self._place.seq_at(before)
            elif before is not None:
                stop = whole(before, "before", 0, SEQ_MAX)
            piece = yield from reading.backward(
                self._context, self._place, stop, limit, bool(include_hidden)
            )
        return self._page_of(piece)

    def _page_of(self, piece: Piece) -> Page[Turn]:
        return Page(
            tuple(piece.turns),
            self._place.cursor(piece.stop - 1),
            self._place.cursor(piece.first) if piece.first > 0 else None,
            piece.more,
        )

    def _ahead(self, after: int) -> Operation[Piece]:
        return reading.forward(self._context, self._place, after, STREAM_LIMIT, False)

    def _behind(self, before: int | None) -> Operation[Piece]:
        return reading.backward(self._context, self._place, before, STREAM_LIMIT, False)

    def _get(self, seq: int) -> Operation[Turn | None]:
        return reading.get(self._context, self._place, checked_seq(seq))

    def _at(self, index: Any) -> Operation[Any]:
        if isinstance(index, slice):
            return reading.at_slice(self._context, self._place, index)
        found = whole(index, "a session's index", -SEQ_MAX, SEQ_MAX)
        return reading.at_index(self._context, self._place, found)

    def _hide(self, seqs: Any, hidden: bool, reason: str | None) -> Operation[None]:
        return writing.hide(self._context, self._place, self._doer(), seqs, hidden, reason)

    def _forked(self, name: str) -> SessionPlace:
        return SessionPlace(
            self._place.namespace, checked_name(name, "a session's name"), self._context.partitions
        )

    def _fork(self, target: SessionPlace, at: int) -> Operation[None]:
        return writing.fork(self._context, self._place, target, self._doer(), at)

    def _erase(
        self, seqs: Any, confirm: object, reason: str | None, by: str | None
    ) -> Operation[ErasureReport]:
        return writing.erase(
            self._context,
            tuple(self._scope.root),
            self._place,
            self._doer(by),
            seqs,
            confirm,
            reason,
        )
