"""What a host says of itself, on its own socket. See ``messages.py`` for the conventions."""

from __future__ import annotations

from msgspec import Struct

from neverforget.actors.message_bases import Reply, Request
from neverforget.storage.results import Finding


class HostStatus(Request, tag=20):
    """Asked of the host's own socket."""


class OwnerView(Struct, array_like=True):
    name: str
    pid: int
    node: str
    state: str
    epoch: int
    socket: str
    reason: str | None = None


class HostReply(Reply, tag=113):
    """``metrics_port``: of Ray on the host's node; 0: it exports none."""

    pid: int
    role: str
    started_at: int
    clients: int
    linger_s: float | None
    ray_address: str | None
    owners: list[OwnerView]
    metrics_port: int = 0
    findings: tuple[Finding, ...] = ()
