"""A process that appends numbered turns to one partition and says what was acknowledged.

    python -m tests.faults.appender DIRECTORY STORE_ID [options]

It is the owner itself, without Ray and sockets, so that a fault hits storage and nothing else. Each
turn's content is a function of its number (``content_of``), each request is one producer_seq. On
standard output, which the test puts on a disk of its own: ``ack REQUEST SEQ NANOSECONDS`` after an
acknowledgement, ``error REQUEST CODE`` after a failure. That output is the oracle.

The controls are here too: ``--unsynced`` is an owner that never syncs. They must lose.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from neverforget.actors.messages import (
    SYNC_DISK,
    SYNC_PROCESS,
    AnyReply,
    AnyRequest,
    Append,
    AppendedReply,
    Failure,
    Get,
    WindowReply,
)
from neverforget.actors.partition import Partition, PartitionSpec
from neverforget.storage.filesystem import FileSystem, LocalFile, LocalFileSystem
from neverforget.storage.record import encode_turn, session_scope
from neverforget.storage.results import TurnFlag

NAMESPACE, SESSION = ("faults",), "numbers"
PRODUCER = 0x5EED
_SCOPE = session_scope(NAMESPACE, SESSION)


def content_of(number: int, turn: int = 0) -> str:
    """30 to 430 bytes, now and then more than a page; different for every turn of every request."""
    length = 9000 if number % 97 == 96 else 30 + number * 37 % 400
    return f"{number}.{turn} ".ljust(length, "abcdefgh"[number % 8])


def append_request(
    number: int, *, turns: int = 1, sync: int = SYNC_DISK, producer: int = PRODUCER
) -> Append:
    records = b"".join(
        bytes(
            encode_turn(
                role="user",
                content=content_of(number, turn),
                timestamp_us=number,
                token_count=1,
                producer=producer,
                producer_seq=number,
                key_scope=_SCOPE,
            )
        )
        for turn in range(turns)
    )
    return Append(number, NAMESPACE, SESSION, None, producer, number, sync, None, records)


class Asked:
    """A request to a partition in this process, and its answer."""

    alive = True

    def __init__(self, request: AnyRequest) -> None:
        self.request = request
        self.answer: AnyReply | None = None

    def reply(self, message: AnyReply) -> None:
        if self.answer is None:
            self.answer = message


class _UnsyncedFile(LocalFile):
    def fdatasync(self) -> None:
        """Forgotten."""


class UnsyncedFileSystem(LocalFileSystem):
    """The mutant that every power cut must catch."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        opened = super().open(path, create=create, read_only=read_only)
        opened.__class__ = _UnsyncedFile
        return opened

    def sync_directory(self, path: Path) -> None:
        """Forgotten as well."""


def spec_of(directory: Path, store_id: str, *, segment_bytes: int) -> PartitionSpec:
    return PartitionSpec(
        directory=str(directory),
        store_id=store_id,
        partition=0,
        role="worker",
        segment_bytes=segment_bytes,
    )


def tell(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("store_id")
    parser.add_argument("--first", type=int, default=1, help="the first request's number")
    parser.add_argument("--count", type=int, default=1 << 31, help="so many requests, then end")
    parser.add_argument("--turns", type=int, default=1, help="turns in a request")
    parser.add_argument("--group", type=int, default=1, help="requests in one turn of the loop")
    parser.add_argument("--sync", choices=["disk", "process"], default="disk")
    parser.add_argument("--segment-bytes", type=int, default=1 << 20)
    parser.add_argument("--persist", action="store_true", help="go on after an error, same request")
    parser.add_argument("--read-at", type=int, help="then read this seq when told so")
    parser.add_argument("--linger", action="store_true", help="stay, unclosed, until input ends")
    parser.add_argument("--file-bytes-max", type=int, help="as `ulimit -f`")
    parser.add_argument("--unsynced", action="store_true", help="the control: never sync")
    args = parser.parse_args(arguments)

    if args.file_bytes_max is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (args.file_bytes_max, args.file_bytes_max))
    fs: FileSystem = UnsyncedFileSystem() if args.unsynced else LocalFileSystem()
    spec = spec_of(args.directory, args.store_id, segment_bytes=args.segment_bytes)
    partition = Partition(spec, fs=fs)
    partition.open()
    tell(f"state {partition.state} {partition.reason or ''}")
    sync = SYNC_DISK if args.sync == "disk" else SYNC_PROCESS
    number, stop = args.first, args.first + args.count
    while number < stop:
        numbers = range(number, min(number + args.group, stop))
        asked = [Asked(append_request(n, turns=args.turns, sync=sync)) for n in numbers]
        partition.run(asked)
        while any(one.answer is None for one in asked):  # it is opening its log anew
            time.sleep(0.001)
            partition.tick()
        failed = False
        for one in asked:
            if isinstance(one.answer, AppendedReply):
                result = one.answer.result
                seq = result.first_seq if not result.existing else -1
                tell(f"ack {one.request.id} {seq} {time.monotonic_ns()}")
            else:
                assert isinstance(one.answer, Failure), one.answer
                tell(f"error {one.request.id} {one.answer.code}")
                failed = True
        if not failed:
            number = numbers.stop
        elif not args.persist:
            return 3
        else:
            time.sleep(0.01)
        if (due := partition.deadline()) is not None and due <= time.monotonic():
            partition.tick()
    if args.read_at is not None:
        tell("ready")
        sys.stdin.readline()
        asked_for = Asked(Get(1, NAMESPACE, SESSION, args.read_at, args.read_at + 1))
        partition.run([asked_for])
        assert isinstance(asked_for.answer, WindowReply), asked_for.answer
        flags = [flag for _, _, flag in asked_for.answer.window.flags]
        tell("read unreadable" if flags == [TurnFlag.UNREADABLE] else f"read {flags}")
    if args.linger:
        tell("idle")
        sys.stdin.read()
    partition.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
