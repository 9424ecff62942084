"""What the host says on its own socket, and how it knows that nobody needs it any more."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from neverforget.actors.host_messages import HostReply, HostStatus, OwnerView
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    Welcome,
)
from neverforget.actors.ports import Pending, failure
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import InvalidArgument


class HostService:
    """Every attached client keeps one connection to this socket for as long as it needs the store.

    With ``linger_s`` set, ``on_idle`` is called once nobody has been connected for that long, also
    when nobody ever was; who cannot connect yet, because the owners still start, is not nobody.
    """

    def __init__(
        self,
        store_id: str,
        *,
        role: str,
        ray_address: str | None,
        owners: Callable[[], list[OwnerView]],
        linger_s: float | None,
        on_idle: Callable[[], None],
        metrics_port: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.clients = 0
        self._store_id = store_id
        self._role = role
        self._ray_address = ray_address
        self._owners = owners
        self._linger_s = linger_s
        self._on_idle = on_idle
        self._metrics_port = metrics_port
        self._clock = clock or SystemClock()
        self._started_at = self._clock.now_us()
        self._idle_at: float | None = None
        self.clients_changed(0)

    def bind(self, wake: Callable[[], None]) -> None:
        """Nothing here comes from other threads. From now on clients can connect."""
        self.clients_changed(self.clients)

    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None:
        for pending in pendings:
            request = pending.request
            if isinstance(request, HostStatus):
                pending.reply(self._status(request.id))
            else:
                error = InvalidArgument("this is the host's socket: ask a partition's owner")
                pending.reply(failure(request.id, error))

    def tick(self, send: Callable[[], None]) -> None:
        if self._idle_at is not None and self._idle_at <= self._clock.monotonic():
            self._idle_at = None
            self._on_idle()

    def deadline(self) -> float | None:
        return self._idle_at

    def welcome(self, id: int) -> Welcome:
        return Welcome(id, self._store_id, -1, 0, PROTOCOL_VERSION, "serving", None, os.getpid())

    def clients_changed(self, clients: int) -> None:
        self.clients = clients
        if self._linger_s is not None:
            idle_at = self._clock.monotonic() + self._linger_s
            self._idle_at = None if clients else idle_at

    def _status(self, id: int) -> HostReply:
        return HostReply(
            id,
            os.getpid(),
            self._role,
            self._started_at,
            self.clients,
            self._linger_s,
            self._ray_address,
            self._owners(),
            self._metrics_port,
        )
