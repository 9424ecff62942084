"""One machine's copy of a log that is shipped, on a real or a crashing file system: opened as an
owner opens it, appended to, shipped.
"""

from __future__ import annotations

from pathlib import Path

from neverforget.storage.epoch import next_epoch, read_epoch
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log import Log, LogOptions
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.recovery import Recovered
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_calls import Got, carry_out
from neverforget.storage.shipping_events import (
    Action,
    Durable,
    Notice,
    Put,
    ReadHeader,
    ReadRun,
    RunRead,
    Serve,
    Shipped,
    Stop,
    Wanted,
)
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_object import Author, records_of
from neverforget.storage.shipping_opening import Opening
from neverforget.storage.shipping_runs import read_run
from neverforget.storage.shipping_start import LocalLog
from tests.fakes.crash_filesystem import CrashFileSystem
from tests.storage.small_log import LOG_ID, PAGE, append

PREFIX = "store/partition-0/"
OPTIONS = LogOptions(segment_bytes=4 * PAGE, first_segment_bytes=PAGE)


class Node:
    """``log`` is open and may be appended to after ``start``, unless it says that it stopped."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        store: ObjectStore,
        *,
        owner: int,
        options: LogOptions = OPTIONS,
        shipping: ShippingOptions | None = None,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.store = store
        self.owner = owner
        self.options = options
        self.shipping = shipping or ShippingOptions()
        self.known = (0, 0)
        self.now_us = 0
        self.log: Log | None = None
        self.machine: Shipping | None = None
        if not fs.exists(directory / "log"):
            fs.make_directory(directory)
            fs.sync_directory(directory.parent)
            Log.create(fs, directory / "log", log_id=LOG_ID, options=options)

    def recover(self, epoch: int) -> tuple[Log, Recovered]:
        return Log.open(
            self.fs,
            self.directory / "log",
            log_id=LOG_ID,
            epoch=epoch,
            torn_directory=self.directory / "torn",
            quarantine_directory=self.directory / "quarantine",
            options=self.options,
        )

    def start(self) -> list[Notice]:
        """As an owner starts: epoch, recovery, what the objects hold, the log again."""
        self.close()
        path = self.directory / "EPOCH"
        log, recovered = self.recover(next_epoch(self.fs, path))
        tail = recovered.tail if recovered.records else 0
        log.close()
        author = Author(bytes(16), LOG_ID, self.owner)
        self.owner += 1
        self.machine = Shipping(author, LocalLog(tail, *self.known, takes_over=True), self.shipping)
        local = LocalCopy(
            self.fs, self.directory, log_id=LOG_ID, tail=tail, epoch=read_epoch(self.fs, path)
        )
        notices = Opening(
            self.machine,
            self.store,
            PREFIX,
            local,
            persist=lambda at_least: next_epoch(self.fs, path, at_least),
            now_us=lambda: self.now_us,
            pause=self.pass_time,
        ).carry_through()
        if not isinstance(notices[-1], Stop):
            self.log, _ = self.recover(local.epoch)
            self.note(notices)
        return notices

    def pass_time(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6) + 1

    def append(self, *texts: str, first_seq: int = 0) -> list[int]:
        """One batch of turns, durable here."""
        assert self.log is not None
        places = append(self.log, *texts, first_seq=first_seq)
        self.log.write()
        self.log.sync()
        return places

    def ship(self) -> list[Notice]:
        """Everything durable; what was said."""
        assert self.log is not None and self.machine is not None
        machine, notices = self.machine, []
        actions: list[Action] = machine.handle(Durable(self.log.durable), self.now_us)
        actions += machine.handle(Wanted(self.log.durable), self.now_us)
        while actions:
            action = actions.pop(0)
            match action:
                case ReadRun(call, start, limit, bytes_max):
                    segments = self.log.segments()
                    run = read_run(self.fs, LOG_ID, segments, start, limit, bytes_max)
                    actions += machine.handle(RunRead(call, run), self.now_us)
                case Put() | ReadHeader():
                    answer = carry_out(self.store, PREFIX, action)
                    assert not isinstance(answer, Got)
                    actions += machine.handle(answer, self.now_us)
                case Serve() | Shipped() | Stop():
                    notices.append(action)
        self.note(notices)
        return notices

    def note(self, notices: list[Notice]) -> None:
        for notice in notices:
            if isinstance(notice, Shipped):
                self.known = (notice.position, notice.number)

    def records(self) -> list[tuple[int, bytes]]:
        """(position, bytes) of every record that can be read."""
        log, recovered = self.recover(read_epoch(self.fs, self.directory / "EPOCH"))
        found = []
        for segment in recovered.segments:
            for position in segment.positions.tolist():
                found.append((position, bytes(log.read(position))))
        log.close()
        return found

    def places(self) -> list[int]:
        """The positions of all records, while the log is open."""
        assert self.log is not None
        at, places, segments = 0, [], self.log.segments()
        while (
            run := read_run(self.fs, LOG_ID, segments, at, self.log.durable, 1 << 20)
        ) is not None:
            places += [run.start + first for first, _ in records_of(run.payload)]
            at = run.stop
        return places

    def read(self, position: int) -> bytes:
        assert self.log is not None
        return bytes(self.log.read(position))

    def power_cut(self) -> None:
        assert isinstance(self.fs, CrashFileSystem)
        self.close()
        self.fs = self.fs.power_cut()

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None
