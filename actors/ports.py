"""What passes between a transport and a service: one request waiting for its answer, and who
answers.

A transport (socket server, Ray method, inline call) collects requests; a service (partition, host)
answers them. The service does not know where a request came from, so that it runs the same in an
actor and inside a caller's process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from neverforget.actors.messages import AnyReply, AnyRequest, Failure, Request, Welcome
from neverforget.storage.errors import NeverforgetError, to_wire


class Pending(Protocol):
    """A request that waits for its answer. ``reply`` may be called from any thread; only the first
    call counts."""

    @property
    def request(self) -> AnyRequest: ...

    @property
    def alive(self) -> bool:
        """False when nobody can receive the answer any more: work for it may be dropped, a mutation
        is still done."""
        ...

    def reply(self, message: AnyReply) -> None: ...


class Owners(Protocol):
    """The owners of a store, for one that is a client of theirs; a channel of ``runtime/`` is
    one."""

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        """What the partition of this number, or one of ``places.py``, replies; a Failure is raised
        as the error that it stands for. Asks again under the same request id until ``deadline``
        (monotonic), then raises Unavailable. Any thread may call.
        """
        ...


class Service(Protocol):
    """One owner. Every method but ``bind`` is called by one thread at a time, that of the
    transport's loop."""

    def bind(self, wake: Callable[[], None]) -> None:
        """``wake`` (any thread) makes the transport look at ``deadline`` again soon."""
        ...

    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None:
        """One turn: take all requests, answer each now or later. Does not wait for another request.
        What it raises is a mistake of its own, never a fault of the disk; whoever has no answer
        then may be told so. ``send`` sends what has been answered so far; it is worth calling
        before something slow."""
        ...

    def tick(self, send: Callable[[], None]) -> None:
        """Do what time has made due. Called when ``deadline`` has passed."""
        ...

    def deadline(self) -> float | None:
        """When ``tick`` must be called next, on the monotonic clock; None: not before the next
        request."""
        ...

    def welcome(self, id: int) -> Welcome: ...

    def clients_changed(self, clients: int) -> None:
        """The transport now has this many greeted connections."""
        ...


def internal_error(error: BaseException) -> NeverforgetError:
    """What a caller is told of a mistake of ours; it belongs in the log, too."""
    return NeverforgetError(f"internal error: {error!r}")


def failure(id: int, error: NeverforgetError) -> Failure:
    code, message, fields = to_wire(error)
    return Failure(id, code, message, fields)
