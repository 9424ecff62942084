"""``kill -9``: to the owner of a partition, and to the owner of the memories. No handler, no last
word, no clean-up."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neverforget.runtime.demo.agent import Notes
from neverforget.runtime.routing import partition_of
from neverforget.storage.digests import session_scope
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.runtime.cluster import ActorGroup
    from neverforget.runtime.status_values import LongTermInfo, OwnerInfo
    from neverforget.runtime.store import Store

PATIENCE_S = 120.0
UNDER_WAY_S = 0.05


@dataclass(slots=True)
class Kill:
    """A partition's process that was ended in the middle. Times on the machine's monotonic
    clock."""

    partition: int
    pid: int
    turns: int
    at: float
    gone_at: float
    after_s: float
    back_in_s: float | None = None
    owner: OwnerInfo | None = None


@dataclass(slots=True)
class MemoryKill:
    """The process that owned the memories, ended while turns were reflected: ``done`` of ``all``
    were. ``owner``: who owns them now."""

    pid: int
    done: int
    all: int
    owner: LongTermInfo | None = None


def kill_a_partition(store: Store, elapsed: float) -> Kill:
    """The one that holds most."""
    owner = max(store.status().owners, key=lambda each: each.turns)
    at = time.monotonic()
    _kill(owner.pid)
    return Kill(owner.partition, owner.pid, owner.turns, at, time.monotonic(), elapsed)


def kill_the_memories(store: Store, done: int, all_turns: int) -> MemoryKill:
    pid = store.status().longterm.pid
    _kill(pid)
    return MemoryKill(pid, done, all_turns)


def _kill(pid: int) -> None:
    """And wait until it is gone."""
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    try:
        os.kill(pid, signal.SIGKILL)
        if process >= 0:
            select.select([process], [], [], PATIENCE_S)  # readable when the process has ended
    finally:
        if process >= 0:
            os.close(process)


def is_back(group: ActorGroup, store: Store, kill: Kill) -> bool:
    """Whether an agent has heard from the partition again."""
    asked = (kill.partition, len(store.status().owners), kill.gone_at)
    return any(group.call("heard_from", *asked, timeout_s=PATIENCE_S))


def say_when_it_came_back(kill: Kill, notes: Iterable[Notes], store: Store) -> None:
    partitions = len(store.status().owners)
    later = [
        told.at - kill.at
        for each in notes
        for told in each.acknowledged
        if partition_of(session_scope(*told.place), partitions) == kill.partition
        # An answer that was under way when the process died is the old owner's.
        if told.at - told.took > kill.gone_at or told.at > kill.gone_at + UNDER_WAY_S
    ]
    if not later:
        raise Unavailable(
            f"partition {kill.partition} did not come back after its process {kill.pid} was killed",
            outcome="unknown",
        )
    kill.back_in_s = min(later)
    kill.owner = store.status().owners[kill.partition]
