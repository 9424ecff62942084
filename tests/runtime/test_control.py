"""The host's own socket: who is attached, and when nobody needs the host any more."""

from __future__ import annotations

from neverforget.actors.host_messages import HostReply, HostStatus, OwnerView
from neverforget.actors.messages import Settle
from neverforget.runtime.control import HostService
from tests.actors.regions import Asked, ManualClock, nothing


class Hosted:
    def __init__(self, linger_s: float | None) -> None:
        self.clock = ManualClock()
        self.ended = 0
        self.service = HostService(
            "store",
            role="serve",
            ray_address="127.0.0.1:1",
            owners=lambda: [OwnerView("p0", 1, "here", "serving", 3, "/p0.sock")],
            linger_s=linger_s,
            on_idle=self.end,
            clock=self.clock,
        )

    def end(self) -> None:
        self.ended += 1

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        due = self.service.deadline()
        if due is not None and due <= self.clock.now:
            self.service.tick(nothing)


def test_a_host_that_nobody_ever_needed_ends() -> None:
    host = Hosted(60)
    host.pass_time(59)
    assert host.ended == 0
    host.pass_time(1)
    assert host.ended == 1
    assert host.service.deadline() is None


def test_time_counts_from_when_clients_can_connect() -> None:
    """Where owners took longer to start than that, their host ended as soon as it served."""
    host = Hosted(60)
    host.clock.now += 59
    host.service.bind(nothing)
    host.pass_time(59)
    assert host.ended == 0
    host.pass_time(1)
    assert host.ended == 1


def test_time_counts_from_when_the_last_client_left() -> None:
    host = Hosted(60)
    host.service.clients_changed(1)
    host.service.clients_changed(2)
    host.pass_time(1000)
    host.service.clients_changed(1)
    host.pass_time(1000)
    host.service.clients_changed(0)
    host.pass_time(59)
    host.service.clients_changed(1)
    host.service.clients_changed(0)
    host.pass_time(59)
    assert host.ended == 0
    host.pass_time(1)
    assert host.ended == 1


def test_a_long_lived_host_does_not_end_by_itself() -> None:
    host = Hosted(None)
    assert host.service.deadline() is None
    host.pass_time(1e9)
    assert host.ended == 0


def test_it_tells_how_things_stand_and_nothing_else() -> None:
    host = Hosted(5)
    host.service.clients_changed(3)
    status, other = Asked(HostStatus(1)), Asked(Settle(2))
    host.service.run([status, other], nothing)
    assert isinstance(status.answer, HostReply)
    assert (status.answer.clients, status.answer.linger_s) == (3, 5)
    assert [owner.epoch for owner in status.answer.owners] == [3]
    assert other.code == "invalid_argument"
