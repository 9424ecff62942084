"""Becoming the owner of a region: lock, epoch, scan, in this order.

The lock comes first, so that the last owner has written its last byte; the epoch is durable before
the log is read, so that no two owners ever bear the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.storage.backup import LOG_DIRECTORY
from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.epoch import EPOCH_FILE, next_epoch, read_epoch
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log import Log
from neverforget.storage.recovery import Recovered
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.set_aside import QUARANTINE_DIRECTORY, TORN_DIRECTORY
from neverforget.storage.spare import Submit

if TYPE_CHECKING:
    from neverforget.storage.replica import Replica
    from neverforget.storage.shipper import Shipper


@dataclass(frozen=True, slots=True)
class Taken:
    """``acquired``: the lock was taken here, and goes with the rest when that is given up."""

    lock: DirectoryLock | None
    log: Log
    recovered: Recovered
    acquired: bool
    shipper: Shipper | None = None

    def give_up(self) -> None:
        if self.shipper is not None:
            self.shipper.close()
        self.log.close()
        if self.lock is not None and self.acquired:
            self.lock.release()


def take_over(
    fs: FileSystem,
    directory: Path,
    *,
    log_id: int,
    lock: Callable[[], DirectoryLock] | None,
    options: RegionOptions,
    clock: Clock,
    submit: Submit | None,
    read_only: bool,
    held: DirectoryLock | None = None,
    replica: Replica | None = None,
) -> Taken:
    """Raises what ``Region.open`` says; nothing more is held then. ``lock`` None: none is taken.
    ``held``: this process has it already, and keeps it whatever happens. ``replica``: what it holds
    of the log comes first, and the log goes on being shipped there; not for one that only reads.
    """
    acquired = held is None and lock is not None
    if held is None and lock is not None:
        held = lock()
    if held is not None and held.taken_from is not None:
        # It died. If that was a media error under the map (SIGBUS), the same read must become an
        # error of one turn now, not the next death.
        options = replace(options, read_by="pread")
    try:
        if replica is not None and read_only:
            from neverforget.storage.replica import check_caught_up

            check_caught_up(fs, directory, replica)
        path = directory / EPOCH_FILE
        epoch = read_epoch(fs, path) if read_only else next_epoch(fs, path)
        opened = partial(
            Log.open,
            fs,
            directory / LOG_DIRECTORY,
            log_id=log_id,
            torn_directory=directory / TORN_DIRECTORY,
            quarantine_directory=directory / QUARANTINE_DIRECTORY,
            options=options.log,
            clock=clock,
            submit=submit,
            read_only=read_only,
        )
        log, recovered = opened(epoch=epoch)
    except BaseException:
        if held is not None and acquired:
            held.release()
        raise
    taken = Taken(held, log, recovered, acquired)
    try:
        newest = _newest_epoch(recovered)
        if newest >= epoch and not read_only:
            # The EPOCH file was lost, or is of a backup: no epoch is given out twice.
            log.epoch = next_epoch(fs, path, at_least=newest)
        if replica is not None and not read_only:
            from neverforget.storage.replica import start_shipping

            log, recovered, shipper = start_shipping(
                fs,
                directory,
                replica,
                log_id=log_id,
                log=log,
                recovered=recovered,
                reopen=lambda epoch: opened(epoch=epoch),
                clock=clock,
            )
            taken = Taken(held, log, recovered, acquired, shipper)
    except BaseException:
        taken.give_up()
        raise
    return taken


def _newest_epoch(recovered: Recovered) -> int:
    """The highest epoch that any record bears."""
    columns = [segment.heads["epoch"] for segment in recovered.segments if len(segment.heads)]
    return max((int(column.max()) for column in columns), default=0)
