"""``Session``: one conversation, in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from neverforget.runtime import session_reading as reading
from neverforget.runtime.arguments import RAISE
from neverforget.runtime.channel import run
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.operation import Operation
from neverforget.runtime.session_core import FOLLOW_WAIT_S, NOTHING, SessionAddress, SessionCore
from neverforget.runtime.times import Moment
from neverforget.runtime.values import Confirmation, ErasureReport, Page, SessionInfo, Turn
from neverforget.storage.errors import NotFound

T = TypeVar("T")
D = TypeVar("D")


class Session(SessionCore):
    """A session of a store: an append-only list of turns, seq 0, 1, 2, … without a gap.

    Made by ``store.session(name)``, without any I/O; it begins to exist with its first turn.
    Threads and forked children may use it; it pickles as its address. Every method that asks an
    owner may raise ``Unavailable`` when none answers within the deadline, and ``StoreClosed``.
    """

    def _run(self, operation: Operation[T]) -> T:
        lease = self._lease
        lease.check()
        return run(operation, lease.engine.channel, self._scope.deadline_s)

    # ---- writing ---------------------------------------------------------------------------------

    def append(
        self,
        role: str,
        content: Any,
        *,
        name: str | None = None,
        call_id: str | None = None,
        metadata: Mapping[str, Any] = NOTHING,
        timestamp: Moment | None = None,
        token_count: int | None = None,
        key: str | None = None,
        expect_seq: int | None = None,
        sync: SyncLevel | None = None,
    ) -> Turn:
        """Append one turn and return it with its seq.

        role: a ``Role`` or any other text. content: text, bytes, or JSON-like data (None, bool,
        int, float, text, bytes, lists, dicts with text keys); it comes back equal. name: who
        speaks. call_id: pairs a tool result with its call. metadata: JSON-like. timestamp: an aware
        datetime, ISO 8601 text with an offset, or whole milliseconds since 1970; now by default.
        token_count: counted by the store's tokenizer unless given. expect_seq: the seq that the
        turn must get. name, call_id and key: None, or text of 1 to 4,096 characters.

        key: unique among this session's own turns for ever, also when its turn is erased. Repeated
        with the same role, content, name and call_id it returns the first turn, as it stands now;
        metadata, timestamp, token_count and agent may differ. Content is compared by structure: the
        order of a dict's keys does not matter, 1 equals 1.0, True equals only True. Of an erased
        turn only a repeat that is the same in everything but timestamp and token_count is known.

        When it returns with ``sync="disk"`` (the default unless the handle says otherwise), the
        turn survives a crash of any process and a power loss. With ``sync="process"`` it survives
        the crash of any process; a power loss within the next second may take it.

        Raises InvalidArgument (nothing was sent), Conflict (the key holds other content, or its
        turn was erased, or ``expect_seq`` is taken: ``.seq`` says where the session stands),
        OutOfSpace, Overloaded, Poisoned, Unavailable (``.outcome`` "unknown": repeat it with the
        same key).
        """
        return self._run(
            self._append(
                role,
                content,
                name,
                call_id,
                metadata,
                timestamp,
                token_count,
                key,
                expect_seq,
                sync,
            )
        )

    def append_many(
        self,
        turns: Iterable[Mapping[str, Any]],
        *,
        expect_seq: int | None = None,
        sync: SyncLevel | None = None,
    ) -> list[Turn]:
        """Append several turns as one batch, contiguous, and return them with their seqs.

        turns: mappings with ``append``'s arguments as keys: role, content, name, call_id, metadata,
        timestamp, token_count, key. All of them are appended or, on an error, none. Those whose key
        is known with equal content return their first turn and are not appended again. Above the
        store's ``batch_bytes_max`` (64 MiB) in all: InvalidArgument. Durability and errors as for
        ``append``: after a crash of any process, or with ``sync="disk"`` a power loss, the whole
        batch is there.
        """
        return self._run(self._append_many(turns, expect_seq, sync))

    def hide(self, seqs: int | Iterable[int], *, reason: str | None = None) -> None:
        """Leave turns out of tails and pages from now on. They stay, keep their seqs, can be got
        and unhidden. Audited; durable on disk when it returns, so it survives a crash of any
        process and a power loss. NotFound for turns that do not exist.
        """
        self._run(self._hide(seqs, True, reason))

    def unhide(self, seqs: int | Iterable[int]) -> None:
        """Show hidden turns again. Audited and durable as ``hide``."""
        self._run(self._hide(seqs, False, None))

    def fork(self, name: str, *, at: int) -> Session:
        """Create the session ``name`` in the same namespace, whose first ``at`` turns are this
        session's: shared, not copied. Its own turns go on from seq ``at``.

        The inherited turns count in every way of reading. What is unique is so among the fork's
        own turns: a ``key`` that an inherited turn holds is free in the fork, and appending under
        it makes a turn of its own.

        Durable on disk when it returns (crash and power loss). Conflict if ``name`` exists,
        NotFound if this session does not, InvalidArgument if it has fewer turns.
        """
        target = self._forked(name)
        self._run(self._fork(target, at))
        return Session(self._lease, self._scope, target, self._agent)

    def erase(
        self,
        seqs: int | Iterable[int] | None = None,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """Zero the bodies of turns on disk, for good; without ``seqs`` those of the whole session
        and its name. What remains: that there was a turn, when, how long, and the audit entry. What
        was learned from them alone is erased as well; ``ErasureReport`` tells of the rest. Where
        that fails the turns are gone all the same: call it again.

        ``confirm`` must be ``nf.CONFIRMED``; anything else raises ConfirmationRequired and is
        audited as ``forget-refused``. The audit record is on disk before the first byte is zeroed;
        when it returns, all of it survives a crash of any process and a power loss, and a crash in
        between is finished on the next start.
        """
        return self._run(self._erase(seqs, confirm, reason, by))

    # ---- reading ---------------------------------------------------------------------------------

    def tail(
        self,
        limit: int = 20,
        *,
        max_tokens: int | None = None,
        roles: str | Iterable[str] | None = None,
        include_hidden: bool = False,
    ) -> list[Turn]:
        """The newest turns, oldest first: at most ``limit``, at most ``max_tokens`` in all, only of
        these roles. The cost does not depend on the session's length.

        A tool result never comes without its call: results whose call lies before the others are
        left out. Where that would leave nothing, the newest turn comes with its call and all that
        lies between, even above ``limit``; so a session with turns to show has a tail. With
        ``max_tokens`` the budget is strict: what does not fit is left out, and the answer may be
        an empty list.
        """
        return self._run(self._tail(limit, max_tokens, roles, include_hidden))

    def page(
        self,
        *,
        after: str | int | None = None,
        before: str | int | None = None,
        newest: bool = False,
        limit: int = 50,
        include_hidden: bool = False,
    ) -> Page[Turn]:
        """Turns from the beginning, from the end (``newest``), after or before a place, oldest
        first. A place is another page's ``next`` or ``previous``, or a seq.

        Replies are bounded: a page may be shorter than ``limit``; ``has_more`` says whether more
        lies in the direction that was read. ``next`` goes on with newer turns and stays usable at
        the end, to poll from; ``previous`` goes on with older ones and is None at the beginning.
        InvalidArgument for a cursor of another session.
        """
        return self._run(self._page(after, before, newest, limit, include_hidden))

    @overload
    def get(self, seq: int) -> Turn: ...
    @overload
    def get(self, seq: int, default: D) -> Turn | D: ...
    def get(self, seq: int, default: Any = RAISE) -> Any:
        """The turn ``seq``, hidden and erased ones too (``state`` says so). NotFound, or
        ``default``, where there is none; Corrupt where it cannot be read.
        """
        found = self._run(self._get(seq))
        if found is not None:
            return found
        if default is RAISE:
            raise NotFound(f"session {self.name!r} has no turn {seq}")
        return default

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        """By seq, from the end with negative numbers, or a slice of seqs; hidden turns too."""
        found: Turn | list[Turn] = self._run(self._at(index))
        return found

    def __len__(self) -> int:
        """How many turns there are, hidden and erased ones too: the next one gets this seq."""
        return self._run(reading.count(self._place))

    def info(self) -> SessionInfo:
        """The session in figures; zeros and None for an unknown one, which is not created."""
        return self._run(reading.info(self._context, self._place))

    def __iter__(self) -> Iterator[Turn]:
        """Every turn that is not hidden, from the first, fetched as needed; a paused iteration
        holds nothing up.
        """
        after = -1
        while True:
            piece = self._run(self._ahead(after))
            yield from piece.turns
            if not piece.more:
                return
            after = piece.stop - 1

    def __reversed__(self) -> Iterator[Turn]:
        """Every turn that is not hidden, from the newest back to the first."""
        before: int | None = None
        while True:
            piece = self._run(self._behind(before))
            yield from reversed(piece.turns)
            if not piece.more:
                return
            before = piece.first

    def follow(self, after: str | int | None = None) -> Iterator[Turn]:
        """Every turn after ``after`` (a cursor or a seq; None: from the beginning) that is not
        hidden, then new ones as they are appended, by anybody. It does not end by itself: break,
        or close the iterator.
        """
        return self._follow(self._seq_after(after))

    def _follow(self, after: int) -> Iterator[Turn]:
        while True:
            piece = self._run(self._ahead(after))
            yield from piece.turns
            after = piece.stop - 1
            if not piece.more:
                self._run(reading.wait(self._place, after, FOLLOW_WAIT_S))

    # ---- the handle ------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        self._lease.check()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._owns_lease:  # it was unpickled: nobody else closes what it attached to
            self._lease.end()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> Session:
        return Session(self._lease, self._scope, self._place, self._agent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Session:
        return self.__copy__()


def _attach(address: SessionAddress) -> Session:
    from neverforget.runtime.store import Store

    store = Store(*address.store.attach())
    place = store._context.place(address.namespace, address.name)
    session = Session(store._lease, store._scope, place, address.agent)
    session._owns_lease = True
    return session
