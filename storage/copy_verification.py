"""Checking the copy of a region as it lies there: nothing is locked, recovered or written."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from crc32c import crc32c
from msgspec import Struct

from neverforget.storage.errors import Corrupt, NeverforgetError
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.record import body_of, read_header
from neverforget.storage.region import Region
from neverforget.storage.results import Finding
from neverforget.storage.segment import SEGMENT_HEADER_BYTES
from neverforget.storage.segments import SegmentInfo
from neverforget.storage.shipping_object import records_of
from neverforget.storage.shipping_runs import read_run

_RUN_BYTES = 8 << 20


class CopyChecked(Struct, frozen=True):
    findings: list[Finding]
    records: int
    bytes: int


def verify_copy(
    fs: FileSystem, directory: Path, *, store_id: str, partition: int | None, durable: int
) -> CopyChecked:
    """``partition`` None: of the memories. ``durable``: where the log ends. What can be proven to
    be durable is checked as in an open region; the records behind that, of the last group that was
    synced, by themselves.
    """
    try:
        if partition is None:
            region: Region | LongTermRegion = LongTermRegion.open(
                fs, directory, store_id=store_id, lock=False, read_only=True
            )
        else:
            region = Region.open(
                fs, directory, store_id=store_id, partition=partition, lock=False, read_only=True
            )
    except NeverforgetError as error:
        return CopyChecked([Finding("unreadable", "error", str(directory), 0, 0, str(error))], 0, 0)
    with closing(region):
        checked = region.verify()
        findings = list(checked)
        proven, segments = region.durable, region.segments()
    more = _behind(fs, directory, segments, proven, durable)
    return CopyChecked(
        findings + more.findings, checked.records + more.records, checked.bytes + more.bytes
    )


def _behind(
    fs: FileSystem, directory: Path, segments: list[SegmentInfo], start: int, durable: int
) -> CopyChecked:
    """The records in [start, durable)."""
    log_id = read_identity(fs, directory).log_id
    records = read = 0
    at = start
    while at < durable:
        try:
            run = read_run(fs, log_id, segments, at, durable, _RUN_BYTES)
        except Corrupt:
            break
        if run is None or run.start != max(at, run.base + SEGMENT_HEADER_BYTES):
            break
        for first, _ in records_of(run.payload):
            if crc32c(body_of(run.payload, first)) != read_header(run.payload, first).body_crc:
                return CopyChecked([_lost(segments, at, durable)], records, read)
            records += 1
        read += len(run.payload)
        at = run.stop
    missing = [_lost(segments, at, durable)] if at < durable else []
    return CopyChecked(missing, records, read)


def _lost(segments: list[SegmentInfo], at: int, durable: int) -> Finding:
    holding = next((s for s in reversed(segments) if s.base <= at), None)
    name, offset = ("", at) if holding is None else (holding.path.name, at - holding.base)
    message = f"the copy is to hold records up to {durable}; they cannot be read from {at} on"
    return Finding("short_copy", "error", name, offset, durable - at, message)
