"""Opening a log that is shipped: what the objects hold of it comes first.

    recover the log, close it -> find, fence, take over -> open it again, with the fence's epoch

Loaded only where a replica is configured.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from neverforget.storage.clock import Clock
from neverforget.storage.epoch import EPOCH_FILE, next_epoch
from neverforget.storage.errors import Corrupt, OwnerFenced, Unavailable, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log import Log
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.recovery import Recovered
from neverforget.storage.shipper import Shipper
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_events import Level, Stop
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_mark import marked_term, read_mark, write_mark
from neverforget.storage.shipping_object import Author, log_prefix, settings_key, store_bytes
from neverforget.storage.shipping_opening import Opening


class Replica(NamedTuple):
    """Where a log is shipped to. ``url``: see ``open_object_store``. ``log``: its name there, as
    "partition-0". ``takes_over``: serve it from here, whoever served it last. ``term``: how often
    it was told to be served elsewhere: taken over from all of a lower one; objects must be there.
    ``tell``: called with the bytes of each object that is taken over.
    """

    url: str
    store_id: str
    log: str
    options: ShippingOptions = ShippingOptions()
    takes_over: bool = False
    term: int = 0
    tell: Callable[[int], None] | None = None


def check_caught_up(fs: FileSystem, directory: Path, replica: Replica) -> None:
    """Raises Unavailable where what stands here may lack what was acknowledged elsewhere: nothing
    of it may be served, not even read, before the replica was asked."""
    if marked_term(fs, directory) < replica.term:
        raise Unavailable(
            f"{replica.log} was moved here and has not been fetched from the replica yet",
            outcome="not_applied",
        )


def start_shipping(
    fs: FileSystem,
    directory: Path,
    replica: Replica,
    *,
    log_id: int,
    log: Log,
    recovered: Recovered,
    reopen: Callable[[int], tuple[Log, Recovered]],
    clock: Clock,
) -> tuple[Log, Recovered, Shipper]:
    """``log`` and ``recovered``: as found; the log is closed whatever happens. ``reopen``: opens it
    anew with that epoch.

    Raises Unavailable where only reads may be served, OwnerFenced where another owner serves it,
    Corrupt where the objects are not what they must be, UnsupportedFormat where a newer version
    wrote them; else what the log raises.
    """
    tail = recovered.tail if recovered.records else 0
    epoch = log.epoch
    log.close()
    store = open_object_store(replica.url)
    _check_place(store, replica)
    mark = read_mark(fs, directory, int.from_bytes(os.urandom(4), "little"))
    owner = int.from_bytes(os.urandom(8), "little")
    author = Author(store_bytes(replica.store_id), log_id, owner, mark.place, replica.term)
    moved = mark.term < replica.term
    here = mark.local_log(tail, expects=replica.term > 0, takes_over=replica.takes_over)
    alone = replica.options.write_without_store and not moved
    machine = Shipping(
        author, here, dataclasses.replace(replica.options, write_without_store=alone)
    )
    local = LocalCopy(fs, directory, log_id=log_id, tail=tail, epoch=epoch)
    prefix = log_prefix(replica.store_id, replica.log)

    def persist(at_least: int) -> int:
        return next_epoch(fs, directory / EPOCH_FILE, at_least)

    def now_us() -> int:
        return int(clock.monotonic() * 1e6)

    opening = Opening(
        machine, store, prefix, local, persist=persist, now_us=now_us, pause=time.sleep,
        wall_us=clock.now_us, tell=replica.tell,
    )  # fmt: skip
    opening.carry_through()
    if machine.stopped is not None:
        raise error_of(machine.stopped)
    if machine.level == Level.READS:
        _, why = machine.failure or (0, "no answer")
        raise Unavailable(
            f"the replica at {store.name} does not answer ({why}); only reads are served until it "
            "does",
            outcome="not_applied",
        )
    if moved:  # before anything is served: from now on this place is like any that served it
        mark = msgspec.structs.replace(mark, term=replica.term)
        write_mark(fs, directory, mark)
    log, recovered = reopen(local.epoch)
    try:
        shipper = Shipper(
            machine, store, prefix, local, log, fs=fs, directory=directory, mark=mark,
            log_id=log_id, persist=persist, now_us=now_us, wall_us=clock.now_us,
        )  # fmt: skip
    except BaseException:
        log.close()
        raise
    return log, recovered, shipper


def _check_place(store: ObjectStore, replica: Replica) -> None:
    """An empty folder is left where a replica was mounted, and would take the beginning of a log.
    Raises Unavailable.
    """
    try:
        found = store.head(settings_key(replica.store_id))
    except Unavailable:
        return  # what is served without an answer is decided later
    if found is None:
        raise Unavailable(
            f"{store.name} has nothing of store {replica.store_id}: it is not mounted, or another "
            "place; only reads are served until it is what it was",
            outcome="not_applied",
        )


def error_of(stop: Stop) -> OwnerFenced | UnsupportedFormat | Corrupt | Unavailable:
    """What the callers of an owner are told that had to stop."""
    if stop.why == "fenced":
        return OwnerFenced(
            f"{stop.reason}. What was acknowledged here and not shipped stays in this directory; "
            "open the store where it is served now, or this copy with replica=None to read it"
        )
    if stop.why == "newer":
        return UnsupportedFormat(f"the replica was written by a newer version: {stop.reason}")
    if stop.why == "refused":
        return Corrupt(f"the replica is not this log's: {stop.reason}")
    return Unavailable(f"the log is opened anew: {stop.reason}", outcome="unknown")
