"""What a client does when its owner goes, stalls or misbehaves: it asks again under the same
request id, and says after the deadline what can be known.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.messages import Append, Failure, SessionReply
from neverforget.actors.messages import Info as InfoRequest
from neverforget.runtime.async_channel import AsyncSocketChannel
from neverforget.runtime.channel import SocketChannel
from neverforget.runtime.config import Config
from neverforget.runtime.operation import RequestIds
from neverforget.storage.results import SessionView
from tests.fakes import plain_host
from tests.fakes.held_sync import HeldSyncFileSystem
from tests.fakes.plain_host import PlainHost
from tests.fakes.rude_owner import STORE_ID, FixedAddresses, RudeOwner
from tests.faults.disks import until
from tests.runtime.conftest import SMALL, filled, seqs
from tests.runtime.test_retrying import append_request

SOON = 0.15  # a deadline that is meant to pass


@pytest.fixture
def attached(host: PlainHost) -> Iterator[nf.Store]:
    with nf.open(host.store.path, host="never", agent="ada") as store:
        yield store


def restart(host: PlainHost) -> None:
    for number in range(SMALL["partitions"]):
        host.stop_owner(number)
        host.start_owner(number)


# ---- real owners ---------------------------------------------------------------------------------


def test_a_client_goes_on_when_owners_restart(host: PlainHost, attached: nf.Store) -> None:
    chat = filled(attached.session("chat"), 3)
    for n in range(3, 6):
        restart(host)
        assert chat.append("user", str(n)).seq == n
        restart(host)
        assert seqs(chat) == list(range(n + 1))


def test_a_follower_goes_on_when_owners_restart(host: PlainHost, attached: nf.Store) -> None:
    chat = filled(attached.session("chat"), 1)
    seen: list[str] = []
    first = threading.Event()

    def follow() -> None:
        for turn in chat.follow():
            seen.append(turn.content)
            first.set()
            if turn.content == "last":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    assert first.wait(30)
    restart(host)
    chat.append("user", "last")
    follower.join(30)
    assert seen == ["0", "last"]


def test_the_next_host_is_found(short_path: Path) -> None:
    first = PlainHost(short_path / "store", Config(**SMALL))
    with nf.open(short_path / "store", host="never") as store:
        chat = filled(store.session("chat"), 2)
        first.close()
        second = PlainHost(short_path / "store")
        try:
            assert chat.append("user", "2").seq == 2
            assert store.status().owners[0].epoch == 2
        finally:
            second.close()


def test_what_a_killed_host_acknowledged_is_there_once(short_path: Path) -> None:
    path = short_path / "store"
    with _Spawned(path) as process:
        with nf.open(path, host="never") as store:
            chat = store.session("chat")
            acknowledged = [chat.append("user", n, sync="process").seq for n in range(200)]
            process.kill()
            process.wait()
            next_host = PlainHost(path)
            try:
                assert seqs(chat) == acknowledged == list(range(200))
                assert chat.append("user", 200).seq == 200
            finally:
                next_host.close()


class _Spawned:
    def __init__(self, path: Path) -> None:
        self.process = plain_host.spawn(path)

    def __enter__(self) -> Any:
        return self.process

    def __exit__(self, *exc: object) -> None:
        plain_host.end(self.process)


def test_no_host_means_unavailable_and_says_what_to_do(short_path: Path) -> None:
    with pytest.raises(nf.Unavailable, match="neverforget serve") as caught:
        nf.open(short_path / "store", host="never", wait=SOON)
    assert caught.value.outcome == "not_applied"
    assert not (short_path / "store" / "IDENTITY").exists()
    host = PlainHost(short_path / "store", Config(**SMALL))
    with nf.open(short_path / "store", host="never", deadline_s=SOON) as store:
        host.close()
        with pytest.raises(nf.Unavailable) as caught:
            store.session("chat").append("user", "x")
        assert caught.value.request_id is not None
        assert isinstance(caught.value, ConnectionError)


def test_what_may_take_for_ever_does_not_look_for_a_host_for_ever(short_path: Path) -> None:
    """Verifying has no deadline: where its host had gone, waiting for the lock of the search raised
    OverflowError, and a search would never have ended."""
    host = PlainHost(short_path / "store", Config(**SMALL))
    with nf.open(short_path / "store", host="never") as store:
        store.session("chat").append("user", "x")
        channel: Any = store._engine.channel
        channel._addresses._wait_s = SOON  # from now on: to attach may take longer
        host.close()
        with pytest.raises(nf.Unavailable, match="neverforget serve"):
            store.backup(short_path / "copy")


def test_forty_late_retries_under_one_key_make_one_turn(short_path: Path) -> None:
    """The owner's disk hangs; the caller gives up early each time and calls again."""
    fs = HeldSyncFileSystem()
    host = PlainHost(short_path / "store", Config(**SMALL), fs=fs)
    try:
        with nf.open(short_path / "store", host="never") as store:
            chat = store.session("chat")
            chat.info()  # connected before the disk hangs
            fs.hold()
            hasty = store.scoped(deadline=0.02).session("chat")
            outcomes: list[str | None] = []
            # One is sent, and later ones are not even greeted; a busy machine may take longer than
            # the deadline to send the first.
            while len(outcomes) < 40 or "unknown" not in outcomes:
                with pytest.raises(nf.Unavailable) as caught:
                    hasty.append("user", "once", key="k")
                outcomes.append(caught.value.outcome)
            assert fs.reached.wait(30)
            fs.let_go()
            assert chat.append("user", "once", key="k").seq == 0
            assert len(chat) == 1
    finally:
        fs.let_go()
        host.close()


def test_a_hanging_disk_holds_up_its_own_partition_only(short_path: Path) -> None:
    fs = HeldSyncFileSystem()
    host = PlainHost(short_path / "store", Config(**SMALL), fs=fs)
    try:
        with nf.open(short_path / "store", host="never") as store:
            chats = [store.session(f"s{n}") for n in range(8)]
            stuck = chats[0]
            free = next(c for c in chats if c._place.partition != stuck._place.partition)
            filled(free, 3)
            fs.hold()
            waiting = threading.Thread(target=lambda: stuck.append("user", "x"))
            waiting.start()
            assert fs.reached.wait(30)
            assert len(free.tail()) == 3
            fs.let_go()
            waiting.join()
            assert len(stuck) == 1
    finally:
        fs.let_go()
        host.close()


# ---- forks of the process ------------------------------------------------------------------------


def in_child(work: Any) -> int:
    """Run ``work`` in a forked child; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_client_used_after_fork_reconnects_and_never_mixes_frames(attached: nf.Store) -> None:
    chat = filled(attached.session("chat"), 1)
    ids = attached._context.ids
    parents = ids.next()[0]
    read, write = os.pipe()

    def child() -> None:
        os.write(write, ids.next()[0].to_bytes(8, "little"))
        for _ in range(50):
            chat.append("user", "child")

    def parent() -> None:
        for _ in range(50):
            chat.append("user", "parent")

    writer = threading.Thread(target=parent)
    writer.start()
    code = in_child(child)
    writer.join()
    assert code == 0
    assert int.from_bytes(os.read(read, 8), "little") != parents == ids.next()[0]
    os.close(read)
    os.close(write)
    contents = [turn.content for turn in chat]
    assert contents.count("child") == contents.count("parent") == 50


def test_closing_in_a_forked_child_leaves_the_parent_alone(attached: nf.Store) -> None:
    chat = filled(attached.session("chat"), 1)
    assert in_child(attached.close) == 0
    assert chat.append("user", "x").seq == 1


def test_an_inline_store_refuses_a_forked_child(inline: nf.Store) -> None:
    chat = filled(inline.session("chat"), 1)

    def child() -> int:
        try:
            chat.append("user", "x")
        except nf.Unavailable as error:
            return 7 if error.outcome == "not_applied" and "fork" in str(error) else 8
        return 9

    assert in_child(child) == 7
    assert len(chat) == 1


# ---- owners that misbehave -----------------------------------------------------------------------


@pytest.fixture
def rude(short_path: Path) -> Iterator[RudeOwner]:
    owner = RudeOwner(short_path / "p0.sock")
    yield owner
    owner.close()


def info_request() -> InfoRequest:
    return InfoRequest(0, (), "s")


SESSION = SessionReply(0, SessionView((), "s", True, [], 1, 1, None, None, 0, 0, None))


class Asker:
    """Calls through the blocking or the event-loop channel alike."""

    def __init__(self, kind: str, addresses: FixedAddresses) -> None:
        self.addresses = addresses
        self.blocking = SocketChannel(STORE_ID, addresses) if kind == "sync" else None
        self.runner = asyncio.Runner() if kind == "async" else None
        self.tasks = AsyncSocketChannel(STORE_ID, addresses) if kind == "async" else None

    def __call__(self, request: Any, seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        if self.blocking is not None:
            return self.blocking.call(0, request, deadline)
        assert self.runner is not None and self.tasks is not None
        return self.runner.run(self.tasks.call(0, request, deadline))

    def close(self) -> None:
        if self.blocking is not None:
            self.blocking.close()
        if self.runner is not None and self.tasks is not None:
            channel = self.tasks

            async def end() -> None:
                channel.close()
                await asyncio.sleep(0)

            self.runner.run(end())
            self.runner.close()


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, rude: RudeOwner) -> Iterator[Asker]:
    asker = Asker(request.param, FixedAddresses(rude.path))
    yield asker
    asker.close()


def test_an_owner_that_closes_in_mid_request_is_asked_again(rude: RudeOwner, ask: Asker) -> None:
    request = append_request(RequestIds())
    rude.replies = [SESSION]
    ask(info_request())  # leaves an idle connection

    def sent() -> list[Append]:
        return [r for r in rude.requests if isinstance(r, Append)]

    def relent() -> None:
        until(lambda: len(sent()) >= 2, "it to be asked again")
        rude.replies.append(SESSION)

    relenting = threading.Thread(target=relent)
    relenting.start()
    assert isinstance(ask(request), SessionReply)
    relenting.join()
    assert len({(r.producer, r.producer_seq, r.records) for r in sent()}) == 1


@pytest.mark.parametrize("way", ["closes", "is silent", "unavailable", "garbage", "half a frame"])
def test_after_the_deadline_the_outcome_of_a_mutation_is_unknown(
    rude: RudeOwner, ask: Asker, way: str
) -> None:
    rude.replies = [SESSION]
    ask(info_request())  # greeted: that takes a busy machine longer than the deadline below
    if way == "is silent":
        rude.silent.set()
    elif way == "unavailable":
        fields = {"outcome": "unknown", "request_id": None}
        rude.replies = [Failure(0, "unavailable", "recovering", fields) for _ in range(10_000)]
    elif way == "garbage":
        rude.replies = [b"\x04\x00\x00\x00nope" for _ in range(10_000)]
    elif way == "half a frame":
        rude.replies = [b"\xff\x00\x00\x00half"]
    request = append_request(RequestIds())
    for seconds in (SOON, 10 * SOON, 100 * SOON):
        with pytest.raises(nf.Unavailable) as caught:
            ask(request, seconds)
        if any(isinstance(r, Append) for r in rude.requests):
            break  # else this machine took longer than that to send it
    assert caught.value.outcome == "unknown" and "same key" in str(caught.value)
    assert caught.value.request_id == f"{request.producer:016x}-{request.producer_seq}"
    with pytest.raises(nf.Unavailable) as caught:
        ask(info_request(), SOON)
    assert caught.value.outcome == "not_applied"  # it was a read
    assert caught.value.request_id is None


def test_what_never_reached_an_owner_was_not_applied(short_path: Path) -> None:
    addresses = FixedAddresses(short_path / "nobody.sock")
    for kind in ("sync", "async"):
        ask = Asker(kind, addresses)
        with pytest.raises(nf.Unavailable, match="nothing was done") as caught:
            ask(append_request(RequestIds()), SOON)
        assert caught.value.outcome == "not_applied"
        ask.close()
    assert addresses.refreshed >= 2


def test_an_owner_that_recovers_is_waited_for(rude: RudeOwner, ask: Asker) -> None:
    rude.replies = [
        Failure(0, "unavailable", "recovering", {"outcome": "not_applied"}),
        Failure(0, "overloaded", "full", {}),
        Failure(0, "poisoned", "reopening", {}),
        SESSION,
    ]
    request = append_request(RequestIds())
    assert isinstance(ask(request), SessionReply)
    assert len(rude.requests) == 4


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("conflict", nf.Conflict),
        ("invalid_argument", nf.InvalidArgument),
        ("out_of_space", nf.OutOfSpace),
        ("corrupt", nf.Corrupt),
        ("something_newer", nf.NeverforgetError),
    ],
)
def test_other_errors_are_raised_at_once(
    rude: RudeOwner, ask: Asker, code: str, error: type[Exception]
) -> None:
    rude.replies = [Failure(0, code, "the reason", {"seq": 3})]
    with pytest.raises(error, match="the reason"):
        ask(append_request(RequestIds()))
    assert len(rude.requests) == 1


@pytest.mark.parametrize(
    ("code", "error"), [("overloaded", nf.Overloaded), ("poisoned", nf.Poisoned)]
)
def test_an_owner_that_stays_so_is_named_after_the_deadline(
    rude: RudeOwner, ask: Asker, code: str, error: type[Exception]
) -> None:
    rude.replies = [SESSION]
    ask(info_request())  # greeted
    rude.replies = [Failure(0, code, "still", {}) for _ in range(10_000)]
    named = False
    while not named:  # now and then the last answer comes when the time is up already
        with pytest.raises((error, nf.Unavailable)) as caught:
            ask(append_request(RequestIds()), SOON)
        named = isinstance(caught.value, error) and "still" in str(caught.value)
        assert named or isinstance(caught.value, nf.Unavailable)


def test_of_many_large_requests_no_more_is_sent_than_the_owner_takes(rude: RudeOwner) -> None:
    """All who waited for the connection wrote what they had when it took a little: the process grew
    by all of that, and nobody could be told that his request was not done."""
    rude.silent.set()
    rude.reads = threading.Semaphore(3)
    requests = [append_request(RequestIds()) for _ in range(20)]
    for request in requests:
        request.records = bytes(1 << 20)

    async def all_at_once() -> list[Any]:
        channel = AsyncSocketChannel(STORE_ID, FixedAddresses(rude.path))
        deadline = time.monotonic() + SOON * 4
        calls = [channel.call(0, request, deadline) for request in requests]
        try:
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            channel.close()

    errors = asyncio.run(all_at_once())
    assert all(isinstance(error, nf.Unavailable) for error in errors)
    unknown = [error for error in errors if error.outcome == "unknown"]
    assert len(unknown) <= 4, "three were read, and one is being sent"


def test_somebody_else_at_the_socket_is_not_talked_to(short_path: Path) -> None:
    stranger = RudeOwner(short_path / "p0.sock", store_id="another")
    try:
        for kind in ("sync", "async"):
            ask = Asker(kind, FixedAddresses(stranger.path))
            with pytest.raises(nf.UnsupportedFormat, match="another"):
                ask(append_request(RequestIds()))
            ask.close()
        assert stranger.requests == []
    finally:
        stranger.close()


def test_a_request_that_no_frame_can_hold_is_refused(rude: RudeOwner, ask: Asker) -> None:
    rude.replies = [SESSION, SESSION]
    request = append_request(RequestIds())
    request.records = bytes(72 * 1024 * 1024)
    ask(info_request())
    with pytest.raises(nf.InvalidArgument, match="limit"):
        ask(request)
    assert isinstance(ask(info_request()), SessionReply)


def test_few_connections_stay_open_after_many_callers(host: PlainHost) -> None:
    """A hundred threads that appended at once left 63 idle sockets until close()."""
    channel = SocketChannel(host.store.store_id, FixedAddresses(Path(host.endpoint.sockets[0])))
    deadline = time.monotonic() + 30
    taken = [channel._connect(0, deadline) for _ in range(20)]
    for connection in taken:
        channel._give_back(0, connection)
    assert channel._idle[0] == taken[:8]
    assert [connection._socket.fileno() for connection in taken[8:]] == [-1] * 12
    channel.close()


def test_an_interrupted_call_leaves_no_stale_reply_behind(rude: RudeOwner) -> None:
    """KeyboardInterrupt in the middle of a reply: the next call must not read the rest of it.

    The owner gets all its replies beforehand. It has not yet taken the second one when the
    interrupted call returns: this test once gave it a third in exchange then, and hung.
    """
    channel = SocketChannel(STORE_ID, FixedAddresses(rude.path))
    rude.replies = [SESSION, SESSION, SESSION]
    deadline = time.monotonic() + 30
    channel.call(0, info_request(), deadline)
    connection = channel._idle[0][0]

    class Interrupting:
        def __init__(self, real: socket.socket) -> None:
            self.real = real

        def recv_into(self, view: memoryview) -> int:
            raise KeyboardInterrupt

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    connection._socket = Interrupting(connection._socket)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        channel.call(0, info_request(), deadline)
    assert channel._idle[0] == []
    assert isinstance(channel.call(0, info_request(), deadline), SessionReply)
    channel.close()


def test_a_closed_channel_says_so(rude: RudeOwner, ask: Asker) -> None:
    rude.replies = [SESSION]
    ask(info_request())
    (ask.blocking or ask.tasks).close()  # type: ignore[union-attr]
    with pytest.raises(nf.StoreClosed):
        ask(info_request())
