"""Real owners in this process, conversations in them, and what a reflector makes of those."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from neverforget.actors import longterm_messages as m
from neverforget.actors.extractor_contract import Extractor, Fact, Window, extractable
from neverforget.actors.longterm import LongTerm
from neverforget.actors.longterm_messages import packed, unpacked
from neverforget.actors.messages import (
    SYNC_PROCESS,
    AnyReply,
    Append,
    DoneReply,
    Erase,
    Fork,
    Hide,
    Request,
    SessionReply,
    Settle,
    Status,
)
from neverforget.actors.messages import Info as InfoRequest
from neverforget.actors.partition import Partition, PartitionSpec
from neverforget.actors.places import LONGTERM
from neverforget.actors.reflection_messages import Unreflected, UnreflectedReply
from neverforget.actors.reflector import Reflector
from neverforget.actors.reflector_calls import Calls, Place
from neverforget.actors.reflector_extracting import Extracting
from neverforget.actors.reflector_messages import (
    Reflect,
    ReflectorStatusReply,
    ReflectReply,
)
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.actors.reflector_subjects import Subjects
from neverforget.actors.reflector_window import Done, WindowRun
from neverforget.actors.request_ids import RequestIds
from neverforget.runtime.inline_channel import InlineChannel
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm_results import (
    Changes,
    MemoryFilter,
    MemoryView,
    RelationView,
    TurnPoint,
)
from neverforget.storage.record import encode_turn, session_scope
from neverforget.storage.reflection_results import DueSession
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import ForkPoint
from tests.actors import longterm_owners
from tests.actors.longterm_owners import SEGMENT_BYTES, STORE_ID
from tests.actors.regions import NAMESPACE, Asked

DAY_US = 86_400_000_000
START_US = 1_700_000_000_000_000  # of the first turn; one a second after it
PATIENCE_S = 60.0


class Told:
    """Facts are what is told so: "remember X" is one, "A = B" one of the subject A, and everything
    else is none. ``seen``: the windows that it was asked about.
    """

    def __init__(self, name: str = "told-1") -> None:
        self.extractor_id = name
        self.seen: list[Window] = []

    def extract(self, window: Window, /) -> list[Fact]:
        self.seen.append(window)
        found = []
        for turn in extractable(window):
            if turn.text.startswith("remember "):
                found.append(Fact(turn.text.removeprefix("remember "), turn.seq, turn.seq))
            elif " = " in turn.text:
                subject = turn.text.split(" = ")[0]
                found.append(
                    Fact(
                        f"{turn.text} ({self.extractor_id})", turn.seq, turn.seq, subject=subject,
                        valid_from=turn.timestamp,
                    )
                )  # fmt: skip
        return found


class Died(BaseException):
    """The process of the reflector is gone."""


class Dying:
    """Owners that are reached ``alive`` times. Then the reflector dies: before the next call, or
    (``after``) once that has been done and before its answer is there.
    """

    def __init__(self, owners: Any, alive: float, *, after: bool = False) -> None:
        self._owners, self._alive, self._after = owners, alive, after
        self.calls: list[str] = []

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        self.calls.append(type(request).__name__)
        if len(self.calls) > self._alive:
            if self._after and len(self.calls) == self._alive + 1:
                self._owners.call(partition, request, deadline)
            raise Died
        reply: AnyReply = self._owners.call(partition, request, deadline)
        return reply


class Stage:
    """Partitions and a long-term owner on a disk, reached as an inline store reaches them."""

    def __init__(self, directory: Path, partitions: int = 1, **settings: Any) -> None:
        self.directory, self._settings = directory, settings
        self._numbers = itertools.count(1)
        self.reflectors: list[Reflector] = []
        self.due = threading.Event()
        self.wakes: list[Callable[[], None]] = []
        options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
        for number in range(partitions):
            Region.create(
                LocalFileSystem(), directory / f"p{number}", store_id=STORE_ID, partition=number,
                options=options,
            )  # fmt: skip
        longterm_owners.create(directory / "lt")
        self.partitions = partitions
        self._open()

    def _open(self) -> None:
        def opened(number: int) -> Partition:
            spec = PartitionSpec(
                directory=str(self.directory / f"p{number}"), store_id=STORE_ID, partition=number,
                role="application", segment_bytes=SEGMENT_BYTES, noop_after_ms=60_000,
                **self._settings,
            )  # fmt: skip
            partition = Partition(spec, lock=False, on_due=self._is_due)
            partition.open()
            return partition

        self._owned = [opened(number) for number in range(self.partitions)]
        self._longterm = LongTerm(
            longterm_owners.spec(self.directory / "lt", embedder="none"), None, lock=False
        )
        self._longterm.open()
        lock = threading.RLock()
        self.channel = InlineChannel(self._owned, threading.RLock(), lambda: (self._longterm, lock))

    def _is_due(self) -> None:
        self.due.set()
        for wake in self.wakes:
            wake()

    def close(self) -> None:
        for reflector in self.reflectors:
            reflector.close()
        self.wakes.clear()
        self.channel.close()
        for partition in self._owned:
            partition.close()
        self._longterm.close()

    def reopen(self) -> None:
        self.close()
        self.reflectors = []
        self._open()

    # ---- conversations ---------------------------------------------------------------------------

    def call(self, partition: int, request: Any) -> Any:
        return self.channel.call(partition, request, time.monotonic() + PATIENCE_S)

    def partition_of(self, session: str) -> int:
        return sum(session.encode()) % self.partitions

    def append(
        self,
        session: str,
        *texts: Any,
        at: int | None = None,
        namespace: tuple[str, ...] = NAMESPACE,
        **turn: Any,
    ) -> None:
        """A turn for each text. ``at``: the time of the first."""
        number = next(self._numbers)
        at = START_US + number * DAY_US if at is None else at
        given: dict[str, Any] = {"role": "user", "token_count": 1, "name": "ann"} | turn
        agent = given.pop("agent", None)
        records = b"".join(
            encode_turn(
                content=text, timestamp_us=at + step * 1_000_000, producer=5, producer_seq=number,
                key_scope=session_scope(namespace, session), agent=agent, **given,
            )
            for step, text in enumerate(texts)
        )  # fmt: skip
        request = Append(0, namespace, session, agent, 5, number, SYNC_PROCESS, None, records)
        self.call(self.partition_of(session), request)

    def fork(self, session: str, name: str, at: int) -> None:
        """Both must be of one partition."""
        point = ForkPoint(NAMESPACE, session, at)
        request = Fork(0, NAMESPACE, name, point, at, "tester", 5, next(self._numbers))
        self.call(self.partition_of(session), request)

    def hide(self, session: str, *seqs: int) -> None:
        number = next(self._numbers)
        runs = [(seq, seq) for seq in seqs]
        request = Hide(0, NAMESPACE, session, runs, True, "tester", None, 5, number)
        self.call(self.partition_of(session), request)

    def erase(self, session: str, *seqs: int) -> None:
        """Without seqs: the whole session."""
        number = next(self._numbers)
        runs = [(seq, seq) for seq in seqs] or None
        request = Erase(0, NAMESPACE, session, runs, "confirmed", "tester", None, 5, number)
        self.call(self.partition_of(session), request)

    def consolidated(self, session: str) -> tuple[int, int]:
        """How many of its turns are done, without a gap, and how many it has."""
        reply = self.call(self.partition_of(session), InfoRequest(0, NAMESPACE, session))
        assert isinstance(reply, SessionReply)
        return reply.session.consolidated_through, reply.session.turns

    def left(self, session: str, again: str | None = None) -> DueSession | None:
        request = Unreflected(0, NAMESPACE, session, None, 1, again, again is not None)
        reply = self.call(self.partition_of(session), request)
        assert isinstance(reply, UnreflectedReply)
        return reply.sessions[0] if reply.sessions else None

    # ---- memories --------------------------------------------------------------------------------

    def memories(self, status: str | None = "active", **wanted: Any) -> list[MemoryView]:
        """In the order in which they were made."""
        found: list[MemoryView] = []
        after = None
        while True:
            request = m.Memories(
                0, packed(MemoryFilter(status=status, **wanted)), after, None, False, 1_000
            )
            reply = self.call(LONGTERM, request)
            assert isinstance(reply, m.MemoryPageReply)
            found += unpacked(reply.memories, list[MemoryView])
            after = reply.next
            if not reply.more:
                return found

    def texts(self, **wanted: Any) -> list[str]:
        return sorted(each.text for each in self.memories(**wanted))

    def relations(self, memory: str, kind: str) -> list[RelationView]:
        request = m.Relations(0, (), memory, kind, "out", 1_000)
        found: list[RelationView] = self.call(LONGTERM, request).relations
        return found

    def provenance(self, memory: MemoryView) -> list[tuple[int, int]]:
        targets = [each.target for each in self.relations(memory.id, "derived-from")]
        return [(one.first, one.last) for one in targets if isinstance(one, TurnPoint)]

    def superseded(self, memory: MemoryView) -> list[str]:
        targets = [each.target for each in self.relations(memory.id, "supersedes")]
        by_id = {each.id: each.text for each in self.memories()}
        return sorted(by_id[one] for one in targets if isinstance(one, str))

    def forget(self, memory: str) -> None:
        number = next(self._numbers)
        request = m.Forget(0, (), "tester", 5, number, "forget", memory, "confirmed", None)
        self.call(LONGTERM, request)

    def revise(self, memory: str, **changes: Any) -> None:
        number = next(self._numbers)
        request = m.Revise(
            0, (), "tester", 5, number, memory, packed(Changes(**changes)), None, SYNC_PROCESS
        )
        self.call(LONGTERM, request)

    # ---- reflecting ------------------------------------------------------------------------------

    def spec(self, **changes: Any) -> ReflectorSpec:
        settings: dict[str, Any] = {
            "directory": "", "store_id": STORE_ID, "role": "application",
            "partitions": self.partitions, "extractor": "test", "threads": 1,
        }  # fmt: skip
        return ReflectorSpec(**(settings | changes))

    def window(
        self,
        extractor: Extractor,
        session: str = "s",
        owners: Any = None,
        due: DueSession | None = None,
        again: bool = False,
        **changes: Any,
    ) -> Done | None:
        """Reflect the next window of a session in this thread; None: there is none."""
        spec = self.spec(**changes)
        calls = Calls(owners or self.channel, RequestIds())
        extracting = Extracting(lambda: extractor, spec.deadline_s)
        name = extracting.extractor_id()
        assert name is not None
        place = Place(self.partition_of(session), NAMESPACE, session)
        if due is None:
            due = calls.left_in(place, name, again, 0)
        if due is None:
            return None
        return WindowRun(spec, calls, Subjects(calls), extracting).reflect(place, due, name)

    def reflect_all(self, extractor: Extractor, *sessions: str, **how: Any) -> int:
        """How many windows there were."""
        count = 0
        for session in sessions or ("s",):
            while self.window(extractor, session, **how) is not None:
                count += 1
        return count

    def reflector(
        self, make: Callable[[], Extractor | None], owners: Any = None, **how: Any
    ) -> Reflector:
        """One with threads, begun. ``how``: of its spec, and ``end``."""
        end = how.pop("end", None)
        found = Reflector(self.spec(**how), owners or self.channel, make, end=end)
        self.reflectors.append(found)
        self.wakes.append(found.wake)
        found.start()
        return found


_runs = itertools.count(1)


def ask(reflector: Reflector, request: Any) -> AnyReply:
    asked = Asked(request)
    reflector.run([asked])
    assert asked.answered.wait(PATIENCE_S)
    return asked.answer


def until(condition: Callable[[], bool], what: Any = None) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < patience, what
        threading.Event().wait(0.002)


def run_through(
    reflector: Reflector,
    session: str | None = None,
    *,
    again: bool = False,
    namespace: Sequence[str] = NAMESPACE,
) -> ReflectReply:
    """A run that was asked for, to its end."""
    name = f"run-{next(_runs)}"

    def asked(begin: bool) -> ReflectReply:
        reply = ask(reflector, Reflect(0, name, begin, tuple(namespace), session, again))
        assert isinstance(reply, ReflectReply)
        return reply

    asked(True)
    until(lambda: asked(False).state == "done", lambda: asked(False))
    return asked(False)


def settle(reflector: Reflector) -> None:
    assert isinstance(ask(reflector, Settle(0)), DoneReply)


def status(reflector: Reflector) -> ReflectorStatusReply:
    reply = ask(reflector, Status(0))
    assert isinstance(reply, ReflectorStatusReply)
    return reply
