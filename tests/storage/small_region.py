"""A small region on a real disk, and a client that speaks to it as ``messages.py`` does.

The client draws request ids, encodes turns, decodes windows. Nothing is hidden: a test says itself
when to write, sync, reopen, or break bytes on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neverforget.storage.digests import session_digest, session_scope
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.format import HEADER_BYTES, ROLE_NAMES, BodyField
from neverforget.storage.record import decode_records, encode_turn
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import (
    Appended,
    AuditView,
    ErasureView,
    ForkPoint,
    TurnFlag,
    Window,
)
from neverforget.storage.session_index import Digest

STORE_ID = "store"
OPTIONS = RegionOptions(segment_bytes=1 << 16, first_segment_bytes=1 << 13)

Namespace = tuple[str, ...]


class HandClock:
    """Moves when told to, and by one microsecond whenever it is read."""

    def __init__(self) -> None:
        self.wall_us = 1_700_000_000_000_000
        self._jumped_us = 0

    def now_us(self) -> int:
        self.wall_us += 1
        return self.wall_us

    def monotonic(self) -> float:
        return (self.wall_us - self._jumped_us) / 1e6

    def jump(self, seconds: float) -> None:
        """Wall time alone, in either direction."""
        self.wall_us += int(seconds * 1e6)
        self._jumped_us += int(seconds * 1e6)


@dataclass
class Seen:
    """A turn as a client sees it."""

    seq: int
    role: str
    content: Any
    flags: int
    tokens: int
    timestamp: int
    session_id: int


def seen(window: Window) -> list[Seen]:
    """The turns of a window with their flags."""
    found = []
    for header, body in decode_records(window.records):
        seq = header.sequence_id
        flags = sum(flag for first, last, flag in window.flags if first <= seq <= last)
        role = ROLE_NAMES.get(header.role, "")
        if body is not None and BodyField.ROLE in body:
            role = body[BodyField.ROLE]
        content = None if body is None else body.get(BodyField.CONTENT)
        found.append(
            Seen(seq, role, content, flags, header.token_count, header.timestamp, header.session_id)
        )
    return found


def contents(window: Window) -> list[Any]:
    return [turn.content for turn in seen(window)]


def seqs(window: Window) -> list[int]:
    return [turn.seq for turn in seen(window)]


def flags_at(window: Window, seq: int) -> TurnFlag:
    return TurnFlag(sum(flag for first, last, flag in window.flags if first <= seq <= last))


@dataclass
class Client:
    """One client object: a producer id, and a producer_seq for each request."""

    region: Region
    producer: int = 77
    producer_seq: int = 0
    agent: str | None = None
    clock: HandClock = field(default_factory=HandClock)

    def next_request(self) -> tuple[int, int]:
        self.producer_seq += 1
        return self.producer, self.producer_seq

    def turns(
        self,
        session: str,
        *turns: dict[str, Any] | str,
        namespace: Namespace = (),
        request: tuple[int, int] | None = None,
    ) -> tuple[bytes, tuple[int, int]]:
        request = request or self.next_request()
        made = []
        for turn in turns:
            given: dict[str, Any] = {"content": turn} if isinstance(turn, str) else turn
            fields: dict[str, Any] = {
                "role": "user",
                "timestamp_us": self.clock.now_us(),
                "token_count": 10,
                **given,
            }
            made.append(
                encode_turn(
                    **fields,
                    producer=request[0],
                    producer_seq=request[1],
                    key_scope=session_scope(namespace, session),
                )
            )
        return b"".join(made), request

    def append(
        self,
        session: str,
        *turns: dict[str, Any] | str,
        namespace: Namespace = (),
        expect_seq: int | None = None,
        request: tuple[int, int] | None = None,
        agent: str | None = None,
    ) -> Appended:
        """Stage only."""
        records, request = self.turns(session, *turns, namespace=namespace, request=request)
        return self.region.append(
            namespace, session, agent or self.agent, *request, expect_seq, records
        )

    def say(self, session: str, *turns: dict[str, Any] | str, **how: Any) -> int:
        """Append durably; the first new seq."""
        appended = self.append(session, *turns, **how)
        self.commit()
        assert self.region.durable >= appended.end
        return appended.first_seq

    def commit(self) -> None:
        self.region.write()
        self.region.sync()

    def hide(
        self, session: str, *runs: tuple[int, int], hidden: bool = True, reason: str | None = None
    ) -> None:
        self.region.hide((), session, runs, hidden, "tester", reason, *self.next_request())
        self.commit()

    def fork(self, session: str, parent: str, at: int) -> None:
        window = self.region.get((), parent, at, at)
        point = ForkPoint((), parent, at, window.session_id)
        self.region.fork((), session, point, window.tokens, "tester", *self.next_request())
        self.commit()

    def erase(
        self,
        session: str,
        runs: Sequence[tuple[int, int]] | None = None,
        *,
        namespace: Namespace = (),
        confirm: str | None = "confirmed",
        reason: str | None = None,
        request: tuple[int, int] | None = None,
    ) -> ErasureView:
        request = request or self.next_request()
        return self.region.erase(namespace, session, runs, confirm, "tester", reason, *request)

    def all(self, session: str, *, include_hidden: bool = True, limit: int = 1000) -> Window:
        return self.region.page((), session, None, None, False, limit, include_hidden)

    def tail(self, session: str, limit: int = 20, **how: Any) -> Window:
        asked: dict[str, Any] = {
            "before": None, "max_tokens": None, "roles": None, "include_hidden": False,
        } | how  # fmt: skip
        return self.region.tail(
            (), session, asked["before"], limit, asked["max_tokens"], asked["roles"],
            asked["include_hidden"],
        )  # fmt: skip


class Bench:
    """A region directory, opened and reopened."""

    def __init__(
        self,
        directory: Path,
        *,
        options: RegionOptions = OPTIONS,
        fs: FileSystem | None = None,
        digest: Digest = session_digest,
    ) -> None:
        self.directory = directory
        self.options = options
        self.fs = fs or LocalFileSystem()
        self.clock = HandClock()
        self._digest = digest
        self._region: Region | None = None
        Region.create(self.fs, directory, store_id=STORE_ID, partition=0, options=options)
        self.client = Client(self.open(), clock=self.clock)

    @property
    def region(self) -> Region:
        assert self._region is not None
        return self._region

    def open(self, directory: Path | None = None, **how: Any) -> Region:
        region = Region.open(
            self.fs,
            directory or self.directory,
            store_id=STORE_ID,
            partition=0,
            options=self.options,
            clock=self.clock,
            digest=self._digest,
            random_bytes=bytes,
            **how,
        )
        if directory is None:
            self._region = region
        return region

    def reopen(self, *, seal: bool = False, **how: Any) -> Region:
        """As after a kill (what was only staged is gone), or after an orderly end."""
        if seal:
            self.region.seal()
        self.close()
        self.client.region = self.open(**how)
        return self.region

    def close(self) -> None:
        if self._region is not None:
            self._region.close()

    # ---- bytes on the disk -----------------------------------------------------------------------

    def segment_of(self, position: int) -> tuple[Path, int]:
        """The file that holds ``position``, and where in it."""
        bases = sorted(int(path.stem, 16) for path in (self.directory / "log").glob("*.seg"))
        base = max(b for b in bases if b <= position)
        return self.directory / "log" / f"{base:016x}.seg", position - base

    def overwrite(self, position: int, data: bytes) -> None:
        path, offset = self.segment_of(position)
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def damage_header(self, position: int) -> None:
        path, offset = self.segment_of(position)
        raw = path.read_bytes()[offset : offset + HEADER_BYTES]
        self.overwrite(position, bytes([raw[0] ^ 0xFF]))

    def damage_body(self, position: int) -> None:
        path, offset = self.segment_of(position)
        raw = path.read_bytes()[offset + HEADER_BYTES : offset + HEADER_BYTES + 1]
        self.overwrite(position + HEADER_BYTES, bytes([raw[0] ^ 0xFF]))

    def position_of(self, session: str, seq: int, namespace: Namespace = ()) -> int:
        found, _ = self.region._state.index.find(namespace, session)
        assert found is not None
        return found.position(seq)

    def audit(self, limit: int = 99, **how: Any) -> list[AuditView]:
        keys = ("operation", "by", "namespace", "session", "start_us", "stop_us", "after")
        asked: list[Any] = [how.get(key) for key in keys]
        operation, by, namespace, session, start_us, stop_us, after = asked
        return self.region.audit(
            operation, by, namespace, session, start_us, stop_us, after, limit
        )[0]

    def findings(self) -> list[str]:
        return [finding.kind for finding in self.region.verify()]

    def every_byte(self) -> bytes:
        """Of every file in the directory, one after the other."""
        files = sorted(path for path in self.directory.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files)


@contextmanager
def bench(directory: Path, **how: Any) -> Iterator[Bench]:
    opened = Bench(directory, **how)
    try:
        yield opened
    finally:
        opened.close()
