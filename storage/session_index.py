"""Where every turn of every session stands in the log, and how many tokens lie before it.

One session is one ``array`` of 64-bit pairs, (position, token sum), 16 bytes a turn, plus about 350
bytes for the session itself. Row 0 is no turn: it holds the position of the record that opened the
session and the tokens inherited from a fork's parent. Row r >= 1 is a turn, and its sum includes
that turn, so the tokens of any range are one subtraction.

Invariants: seqs only grow; a seq without a row is an *unreadable* turn (its record is lost), never
a free one; everything here can be built again from the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from neverforget.storage.digests import session_digest
from neverforget.storage.results import ForkPoint, SalvagedRun
from neverforget.storage.runs import NO_RUNS, Runs
from neverforget.storage.session_catalogue import SessionCatalogue

SESSION_ID_MAX = 2**64 - 1
NO_POSITION = -1
# Tuples of agents are shared between sessions up to this size; beyond it each session has a dict.
SHARED_AGENTS_MAX = 8
_AGENT_TUPLES_MAX = 4096
_BUSY_MAX = 4096  # sessions found by name without a digest

Digest = Callable[[tuple[str, ...], str], int]


class SessionExtra:
    """What most sessions do not have, made piece by piece. ``extractors``: who made ``marks``, see
    ``consolidation``.

    ``base``: the first seq of this session's own, above 0 in a fork of ``parent``. ``gaps``: (seq,
    row) from which that seq has that row, after seqs without rows. ``evidence``: position of the
    newest record besides turns that told the end. ``texts``: positions of further records that hold
    text of the session, which erasing it must reach. ``salvaged``: which turns were, ascending.
    """

    __slots__ = (
        "base", "erased", "evidence", "extractors", "gaps", "hidden", "marks", "parent", "salvaged",
        "texts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.base = 0
        self.parent: ForkPoint | None = None
        self.evidence = 0
        self.gaps: Sequence[tuple[int, int]] = ()
        self.texts: array[int] | None = None
        self.extractors: str | dict[str, Runs] | None = None
        self.hidden = self.erased = self.marks = NO_RUNS
        self.salvaged: list[SalvagedRun] | tuple[()] = ()

    def own(self, which: Literal["hidden", "erased", "marks"]) -> Runs:
        """These runs, to be changed: until then all sessions share one empty object."""
        held: Runs = getattr(self, which)
        if held is NO_RUNS:
            held = Runs()
            setattr(self, which, held)
        return held

    def note_salvaged(self, run: SalvagedRun) -> None:
        """Runs that go on where the one before ends are one, so that many batches cost as one."""
        if not isinstance(self.salvaged, list):
            self.salvaged = []
        if self.salvaged:
            first, last, epoch, old = self.salvaged[-1]
            if (last + 1, epoch, old + last + 1 - first) == (run[0], run[2], run[3]):
                run = (first, run[1], epoch, old)
                self.salvaged.pop()
        self.salvaged.append(run)


class Session(msgspec.Struct, gc=False):
    """One session. ``name`` None: lost with its record, or erased; ``first_call``: seq of the first
    turn that holds calls. Turns base..done-1 were consolidated by ``done_by``, None: by nobody, or
    see ``extra``. Make it with ``new_session``.

    No cycle ever leads back to it, so the garbage collector need not know of it: that is 16 bytes a
    session, and a shorter pause.
    """

    session_id: int
    rows: array[int]
    namespace: tuple[str, ...] = ()
    name: str | None = None
    agents: tuple[str, ...] | dict[str, None] = ()
    first_call: int | None = None
    extra: SessionExtra | None = None
    done: int = 0
    done_by: str | None = None

    @property
    def base(self) -> int:
        return 0 if self.extra is None else self.extra.base

    @property
    def opened_at(self) -> int:
        return self.rows[0]

    @property
    def end(self) -> int:
        """The seq that comes next, as far as is known."""
        rows = len(self.rows) >> 1
        extra = self.extra
        if extra is None:
            return rows - 1
        if extra.gaps:
            seq, row = extra.gaps[-1]
            return seq + rows - row
        return extra.base + rows - 1

    @property
    def turn_rows(self) -> int:
        """How many turns have a record."""
        return (len(self.rows) >> 1) - 1

    @property
    def tokens(self) -> int:
        """All of them, the inherited ones too."""
        return self.rows[-1]

    @property
    def last_position(self) -> int:
        """Where the newest record that tells the session's end stands."""
        at = self.rows[-2]
        return at if self.extra is None else max(at, self.extra.evidence)

    @property
    def consolidated_through(self) -> int:
        """Turns 0..n-1 are consolidated. A fork's marks begin at its base."""
        if self.extra is None or self.done_by is not None:
            return self.done
        through = self.extra.marks.contiguous_from(self.base)
        return 0 if through == self.base else through

    @property
    def marks(self) -> Runs:
        """Turns that are consolidated. Not to be changed: see ``consolidation``."""
        if self.done_by is not None:
            return Runs([(self.base, self.done - 1)])
        return NO_RUNS if self.extra is None else self.extra.marks

    def more(self) -> SessionExtra:
        """``extra``, made when missing."""
        if self.extra is None:
            self.extra = SessionExtra()
        return self.extra

    def note_text(self, position: int) -> None:
        """A record at ``position`` holds text of this session, besides its turns and row 0."""
        extra = self.more()
        if extra.texts is None:
            extra.texts = array("Q")
        extra.texts.append(position)

    def append(self, position: int, tokens: int) -> None:
        """The next turn's record stands at ``position``."""
        rows = self.rows
        rows.extend((position, rows[-1] + tokens))

    def skip_to(self, seq: int) -> bool:
        """Seqs from ``end`` to seq-1 are lost: no record will ever come to light for them. False:
        there are none.
        """
        if seq <= self.end:
            return False
        extra = self.more()
        extra.gaps = [*extra.gaps, (seq, len(self.rows) >> 1)]
        return True

    def row(self, seq: int) -> int:
        """The row of ``seq``, 0 where it has none."""
        if self.extra is None or not self.extra.gaps:
            row = seq - self.base + 1
        else:
            gaps = self.extra.gaps
            at = bisect_right(gaps, (seq, 1 << 62)) - 1
            if at < 0:
                row = seq - self.base + 1
                stop = gaps[0][1]
            else:
                row = gaps[at][1] + seq - gaps[at][0]
                stop = gaps[at + 1][1] if at + 1 < len(gaps) else len(self.rows) >> 1
            if row >= stop:
                return 0
        return row if 0 < row < len(self.rows) >> 1 else 0

    def seq_of_row(self, row: int) -> int:
        """Which turn has this row, which must be above 0."""
        seq, first_row = self.base, 1
        for next_seq, next_row in self.extra.gaps if self.extra is not None else ():
            if next_row > row:
                break
            seq, first_row = next_seq, next_row
        return seq + row - first_row

    def position(self, seq: int) -> int:
        """Where the record of ``seq`` stands, NO_POSITION where it is lost or not there yet."""
        row = self.row(seq)
        return self.rows[row << 1] if row else NO_POSITION

    def tokens_before(self, seq: int) -> int:
        """Tokens of all turns below ``seq``."""
        if self.extra is None or not self.extra.gaps:
            return self.rows[((seq - self.base) << 1) + 1]
        return self.rows[(self._rows_below(seq) << 1) + 1]

    def tokens_of(self, seq: int) -> int:
        """Of one turn; 0 when its record is lost."""
        at = (self.row(seq) << 1) + 1
        return self.rows[at] - self.rows[at - 2] if at > 1 else 0

    def _rows_below(self, seq: int) -> int:
        """The last row of a turn below ``seq``, 0 when there is none. Gaps are there."""
        assert self.extra is not None
        gaps = self.extra.gaps
        at = bisect_right(gaps, (seq, 1 << 62)) - 1
        if at < 0:
            return min(seq - self.base, gaps[0][1] - 1)
        stop = gaps[at + 1][1] if at + 1 < len(gaps) else len(self.rows) >> 1
        return min(gaps[at][1] + seq - gaps[at][0], stop) - 1

    def first_within_tokens(self, stop: int, tokens_max: int) -> int:
        """The smallest seq such that it and all turns up to stop-1 hold at most ``tokens_max``.

        O(log n). Turns without tokens before it are taken in.
        """
        floor = self.tokens_before(stop) - tokens_max
        low, high = self.base, stop
        while low < high:
            middle = (low + high) >> 1
            if self.tokens_before(middle) >= floor:
                high = middle
            else:
                low = middle + 1
        return low

    def seqs_with_rows(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """(seq, row) of first..stop-1, ascending, lost ones left out."""
        for seq in range(max(first, self.base), min(stop, self.end)):
            row = self.row(seq)
            if row:
                yield seq, row


def new_session(session_id: int, opened_at: int) -> Session:
    """A session without turns, opened by the record at ``opened_at``."""
    return Session(session_id, array("Q", (opened_at, 0)))


class SessionIndex:
    """All sessions of a region, by id and by name."""

    def __init__(self, digest: Digest = session_digest) -> None:
        self._digest = digest
        self.by_id: dict[int, Session] = {}
        self.catalogue = SessionCatalogue()
        self.erased_ids: set[int] = set()
        self.turns = 0
        self._agent_tuples: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._busy: dict[tuple[tuple[str, ...], str], Session] = {}  # by name, as found lately

    def __len__(self) -> int:
        return len(self.catalogue)

    def find(self, namespace: tuple[str, ...], name: str) -> tuple[Session | None, int]:
        """The session of that name, or None and the id that a new one of that name gets.

        A taken id is passed over unless the names are equal. One whose name was lost with its
        record answers for the name that has its digest: unreadable is not the same as empty.
        """
        busy = self._busy.get((namespace, name))
        if busy is not None:
            return busy, busy.session_id
        digest = session_id = self._digest(namespace, name) or 1
        while True:
            session = self.by_id.get(session_id)
            if session is None:
                return None, session_id
            if session.name == name and session.namespace == namespace:
                if len(self._busy) >= _BUSY_MAX:
                    self._busy.clear()
                self._busy[namespace, name] = session
                return session, session_id
            lost = session.name is None and session_id not in self.erased_ids
            if lost and session_id == digest:
                return session, session_id
            session_id = session_id + 1 if session_id < SESSION_ID_MAX else 1

    def get_or_make(self, session_id: int, position: int) -> Session:
        session = self.by_id.get(session_id)
        if session is None:
            session = self.by_id[session_id] = new_session(session_id, position)
        return session

    def name(self, session: Session, namespace: tuple[str, ...], name: str) -> None:
        """Give a session its name, once."""
        if session.name is None:
            session.namespace = namespace
            session.name = name
            self.catalogue.add(session)

    def join(self, session: Session, agent: str) -> None:
        if agent in session.agents:
            return
        if isinstance(session.agents, dict):
            session.agents[agent] = None
        elif len(session.agents) < SHARED_AGENTS_MAX:
            agents = (*session.agents, agent)
            if len(self._agent_tuples) >= _AGENT_TUPLES_MAX:
                self._agent_tuples.clear()  # sharing is a saving, nothing depends on it
            session.agents = self._agent_tuples.setdefault(agents, agents)
        else:
            session.agents = dict.fromkeys((*session.agents, agent))

    def bury(self, session: Session) -> None:
        """Erase a whole session: its id stays taken for ever, its name starts afresh."""
        if session.session_id in self.erased_ids:
            return
        self.turns -= session.turn_rows
        if session.name is not None:
            self.catalogue.remove(session)
            self._busy.pop((session.namespace, session.name), None)
        self.erased_ids.add(session.session_id)
        self.by_id[session.session_id] = new_session(session.session_id, session.opened_at)
