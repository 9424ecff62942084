"""Keeps an eye on the owners: Ray starts a dead one again, but never notices one that hangs.

A stopped owner (state T, again and again, and it did not run in between) and one that has not
answered for long are killed by pid, so that Ray starts the next. An owner that Ray has given up
(somebody called ``ray.kill``) is started anew.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.actors.greeting import greet
from neverforget.actors.host_messages import OwnerView
from neverforget.actors.messages import Welcome
from neverforget.actors.owner_spec import OwnerSpec
from neverforget.storage.directory_lock import (
    ProcessId,
    end_process,
    process_state,
    read_holder,
    start_time,
    ticks_run,
)
from neverforget.storage.errors import NeverforgetError

if TYPE_CHECKING:
    from neverforget.actors.handles import OwnerHandle
    from neverforget.runtime.cluster import Cluster

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HealthOptions:
    interval_s: float = 1.0
    answer_s: float = 2.0  # an owner that is well answers a greeting within this
    stopped_s: float = 2.0  # how long an owner may be stopped (SIGSTOP) before it is killed
    hung_s: float = 30.0  # how long it may be silent, alive, before it is killed
    gone_s: float = 10.0  # how long nobody may be there before Ray is asked whether it gave up


@dataclass
class Owner:
    """What the host knows of one owner, or of one embedder. ``spawn`` starts it anew where Ray has
    given it up. ``replacing`` is held by whoever may: two would wait for each other's name."""

    spec: OwnerSpec
    handle: OwnerHandle
    spawn: Callable[[], OwnerHandle]
    process: ProcessId | None = None
    welcome: Welcome | None = None
    answered_at: float = field(default_factory=time.monotonic)
    stopped_at: float | None = None
    ticks: int = 0  # that it had run when it was seen to be stopped
    replacing: threading.Lock = field(default_factory=threading.Lock)

    def view(self) -> OwnerView:
        welcome = self.welcome
        return OwnerView(
            self.handle.name,
            0 if welcome is None else welcome.pid,
            os.uname().nodename,
            "recovering" if welcome is None else welcome.state,
            0 if welcome is None else welcome.epoch,
            self.spec.socket,
            None if welcome is None else welcome.reason,
        )


class Watchdog:
    """``check`` looks once; ``start`` does so in a thread until ``stop``.

    ``on_lost(why)``: there is nothing left to watch, the host has lost its Ray, or its store
    (``displaced`` says what has become of that directory; None while it is in its place).
    ``on_due``: an owner has sessions that are to be reflected.
    """

    def __init__(
        self,
        owners: list[Owner],
        cluster: Cluster,
        on_lost: Callable[[str], None],
        options: HealthOptions | None = None,
        displaced: Callable[[], str | None] = lambda: None,
        on_due: Callable[[], None] = lambda: None,
    ) -> None:
        self.owners = owners
        self._cluster = cluster
        self._on_lost = on_lost
        self._displaced = displaced
        self._on_due = on_due
        self._options = options or HealthOptions()
        self._changing = threading.Lock()  # whom it watches: owners come and go on several threads
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def watch(self, owner: Owner) -> None:
        """This one, too, from now on."""
        with self._changing:
            self.owners = [*self.owners, owner]

    def leave(self, owner: Owner) -> None:
        """Look at it no more: whoever asks for this ends it. Waits for a look that goes on."""
        owner.replacing.acquire()
        with self._changing:
            self.owners = [other for other in self.owners if other is not owner]

    def _run(self) -> None:
        while not self._stop.wait(self._options.interval_s):
            try:
                why = self._displaced() or self._cluster.lost()
                if why is not None:
                    self._on_lost(why)
                    return
                for owner in self.owners:
                    self.check(owner)
            except Exception:
                log.exception("a health check failed")

    def check(self, owner: Owner) -> None:
        """Look at it once, unless somebody replaces it."""
        if not owner.replacing.acquire(blocking=False):
            return
        try:
            self._check(owner)
        finally:
            owner.replacing.release()

    def _check(self, owner: Owner) -> None:
        now = time.monotonic()
        self._find_successor(owner)
        if self._is_stopped(owner, now):
            return
        try:
            connection, welcome = greet(
                owner.spec.socket, owner.spec.store_id, self._options.answer_s
            )
        except (OSError, NeverforgetError) as error:
            self._silent(owner, now, error)
            return
        connection.close()
        if owner.process is None or owner.process.pid != welcome.pid:
            self._is_now(owner, ProcessId(welcome.pid, start_time(welcome.pid)))
        if owner.welcome is not None and owner.welcome.state != welcome.state:
            level = logging.INFO if welcome.state == "serving" else logging.ERROR
            why = f": {welcome.reason}" if welcome.reason else ""
            log.log(level, "%s is %s%s", owner.handle.name, welcome.state, why)
        owner.welcome = welcome
        owner.answered_at = time.monotonic()
        if welcome.due:
            self._on_due()

    def _is_now(self, owner: Owner, process: ProcessId) -> None:
        if owner.process is not None:
            log.warning("%s runs again, as process %d", owner.handle.name, process.pid)
        owner.process = process
        owner.answered_at = time.monotonic()  # the silence until now was not this one's

    def _find_successor(self, owner: Owner) -> None:
        """An owner that hangs before it was ever greeted is known by the lock that it took."""
        if owner.process is not None and process_state(owner.process) is not None:
            return
        if not owner.spec.directory:  # an embedder has no lock
            return
        holder = read_holder(Path(owner.spec.directory))
        if holder is None or holder.host != owner.spec.host:
            return
        if holder.process != owner.process and process_state(holder.process) is not None:
            self._is_now(owner, holder.process)

    def _is_stopped(self, owner: Owner, now: float) -> bool:
        process = process_of(owner)
        if process is None or process_state(process) != "T":
            owner.stopped_at = None
            return False
        ticks = ticks_run(process)
        if owner.stopped_at is None or ticks != owner.ticks:  # who is only slowed runs in between
            owner.stopped_at, owner.ticks = now, ticks
        if now - owner.stopped_at >= self._options.stopped_s:
            self._kill(owner, process, "is stopped")
        return True

    def _silent(self, owner: Owner, now: float, error: Exception) -> None:
        silent_s = now - owner.answered_at
        process = owner.process
        if process is not None and process_state(process) is not None:
            if silent_s >= self._options.hung_s:
                self._kill(owner, process, f"has not answered for {silent_s:.0f} s ({error})")
        else:
            owner.welcome = None
            if silent_s >= self._options.gone_s and owner.handle.is_dead(self._options.answer_s):
                log.error("Ray has given up %s; starting it anew", owner.handle.name)
                owner.handle = owner.spawn()
                owner.answered_at = time.monotonic()
            elif silent_s >= 4 * self._options.hung_s:
                # It hangs before it took its lock, or Ray does. Patience: it may also be a slow
                # start.
                log.error("%s did not come back; having Ray restart it", owner.handle.name)
                owner.handle.restart()
                owner.answered_at = time.monotonic()

    def _kill(self, owner: Owner, process: ProcessId, why: str) -> None:
        log.error("%s (process %d) %s: killing it", owner.handle.name, process.pid, why)
        owner.answered_at = time.monotonic()
        owner.stopped_at = None
        end_process(process)


def process_of(owner: Owner) -> ProcessId | None:
    """The one that was greeted. Of an owner that was not yet, or not since its last process ended:
    what Ray has started for it.
    """
    if owner.process is not None and process_state(owner.process) is not None:
        return owner.process
    pid = owner.handle.pid()
    return None if pid is None else ProcessId(pid, start_time(pid))
