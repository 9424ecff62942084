"""A small log on a real disk, its exact layout, and what a cut or a flipped bit in it must lead to.

The expectations are computed from the layout and the rules of FORMAT.md, by code that shares
nothing with the scanner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.format import HEADER_BYTES, RecordFlag
from neverforget.storage.log import Log, LogOptions
from neverforget.storage.record import encode_turn
from neverforget.storage.recovery import Recovered
from neverforget.storage.spare import Submit

LOG_ID = 0x0123456789ABCDEF
PAGE = 4096
OPTIONS = LogOptions(segment_bytes=PAGE, first_segment_bytes=PAGE)
FS = LocalFileSystem()


def turn(text: str, *, producer: int = 77, producer_seq: int = 1) -> bytearray:
    return bytearray(
        encode_turn(
            role="user",
            content=text,
            timestamp_us=1_700_000_000_000_000,
            token_count=3,
            producer=producer,
            producer_seq=producer_seq,
            key_scope=b"",
        )
    )


def open_log(
    root: Path,
    *,
    epoch: int = 1,
    options: LogOptions = OPTIONS,
    submit: Submit | None = None,
    read_only: bool = False,
    log_id: int = LOG_ID,
) -> tuple[Log, Recovered]:
    return Log.open(
        FS,
        root / "log",
        log_id=log_id,
        epoch=epoch,
        torn_directory=root / "torn",
        quarantine_directory=root / "quarantine",
        options=options,
        submit=submit,
        read_only=read_only,
    )


def create_log(root: Path, options: LogOptions = OPTIONS) -> None:
    Log.create(FS, root / "log", log_id=LOG_ID, options=options)


def append(log: Log, *texts: str, session_id: int = 5, first_seq: int = 0) -> list[int]:
    """One batch of turns, staged; the positions of its records."""
    records = [turn(text) for text in texts]
    batch = bytearray().join(records)
    start = log.reserve(len(batch))
    positions, offset = [], 0
    for index, record in enumerate(records):
        at, seq = start + offset, first_seq + index
        flags = RecordFlag.BATCH_FIRST if index == 0 else RecordFlag(0)
        if index + 1 < len(records):
            flags |= RecordFlag.BATCH_MORE
        log.stamp(batch, offset, at, session_id=session_id, seq=seq, flags_or=flags)
        positions.append(at)
        offset += len(record)
    log.stage(batch)
    return positions


def commit(log: Log, *texts: str, first_seq: int = 0) -> list[int]:
    positions = append(log, *texts, first_seq=first_seq)
    log.write()
    log.sync()
    return positions


@dataclass(frozen=True)
class Placed:
    """One record as it stands in the log. ``claim``: its durable mark. ``batch``: where its batch
    begins."""

    start: int
    body_end: int
    end: int
    claim: int
    batch: int
    more: bool
    data: bytes

    @property
    def body(self) -> int:
        return self.start + HEADER_BYTES


def layout(log: Log, positions: list[int]) -> list[Placed]:
    placed: list[Placed] = []
    for position in positions:
        header = log.header(position)
        flags = RecordFlag(header.flags)
        first = RecordFlag.BATCH_FIRST in flags or not placed
        placed.append(
            Placed(
                start=position,
                body_end=position + HEADER_BYTES + header.body_length,
                end=position + HEADER_BYTES + (header.body_length + 7) // 8 * 8,
                claim=position - 8 * header.durable_back,
                batch=position if first else placed[-1].batch,
                more=RecordFlag.BATCH_MORE in flags,
                data=bytes(log.read(position)),
            )
        )
    return placed


@dataclass(frozen=True)
class Expected:
    """``kept``: read back as they were. ``unreadable``: header kept, body refused."""

    kept: list[Placed]
    unreadable: list[Placed]
    quarantined: list[tuple[int, int]]
    torn_bytes: int
    tail: int
    kinds: list[str]


def expect(
    records: list[Placed],
    *,
    bad_header: Placed | None = None,
    bad_body: Placed | None = None,
    gone_from: int | None = None,
    last_byte: int = 0,
    kinds: list[str] | None = None,
) -> Expected:
    """What opening one segment must find. ``gone_from``: this and what follows reads as zero;
    ``last_byte``: the end of the last byte that is not zero (a stray one, or of a damaged end)."""
    there = [r for r in records if r is not bad_header]
    if gone_from is not None:
        there = [r for r in there if r.body <= gone_from]
    mark = max([64, *(r.claim for r in there)])
    cut = PAGE if gone_from is None else gone_from
    invalid = [r for r in there if r is bad_body or r.body_end > cut]
    data_end = max([64, *(r.end for r in there)])
    tail = max([64, *(r.end for r in there if r not in invalid)])
    quarantined: list[tuple[int, int]] = []
    broken = [r.start for r in invalid if r.start >= mark]
    if bad_header is not None:
        if bad_header.start < mark:
            quarantined.append((bad_header.start, bad_header.end))
        else:
            broken.append(bad_header.start)
    tail = min([tail, *broken]) if broken else max(tail, data_end)
    accepted = [r for r in there if r.start < tail]
    if accepted and accepted[-1].more and accepted[-1].start >= mark:
        tail = max(mark, accepted[-1].batch)
        accepted = [r for r in accepted if r.start < tail]
    torn = max(0, max(data_end, last_byte) - tail)
    found = list(kinds or [])
    found += ["corrupt_header"] * len(quarantined) + ["torn_tail"] * bool(torn)
    return Expected(
        kept=[r for r in accepted if r not in invalid],
        unreadable=[r for r in accepted if r in invalid],
        quarantined=quarantined,
        torn_bytes=torn,
        tail=tail,
        kinds=found,
    )
