"""The socket loop, with real sockets and a service that only echoes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.connection import Bounds
from neverforget.actors.frames import LENGTH, frame
from neverforget.actors.messages import (
    AppendedReply,
    DoneReply,
    Failure,
    Hello,
    Settle,
    WindowReply,
)
from neverforget.actors.server import SocketServer
from neverforget.storage.results import Appended
from tests.actors.echo import PATIENCE_S, STORE_ID, Client, Echo, append, get, info

Serve = Callable[..., tuple[Echo, Path]]
STALL_S = 1.0  # a client that is well greets within this, on a busy machine too


@pytest.fixture
def serve(short_path: Path) -> Iterator[Serve]:
    """Start a server with these bounds; several in one test have one path each."""
    servers: list[SocketServer] = []

    def start(**changes: Any) -> tuple[Echo, Path]:
        echo = Echo()
        path = short_path / f"{len(servers)}.sock"
        server = SocketServer(path, echo, store_id=STORE_ID, bounds=Bounds(**changes))
        server.start("server under test")
        servers.append(server)
        return echo, path

    yield start
    for server in servers:
        server.stop()


def works(path: Path) -> bool:
    """A client like any other is served."""
    with Client(path) as client:
        return client.ask(append(1, 300)) == AppendedReply(1, client_result(300))


def client_result(size: int) -> Appended:
    return Appended(size, [], size)


def test_requests_are_answered_under_their_ids(serve: Serve) -> None:
    _, path = serve()
    with Client(path) as client:
        client.send(append(7, 10), Settle(9), append(8, 20))
        replies = {reply.id: reply for reply in (client.receive() for _ in range(3))}
    assert replies[7] == AppendedReply(7, client_result(10))
    assert replies[8] == AppendedReply(8, client_result(20))
    assert replies[9] == DoneReply(9)


def test_what_several_clients_ask_while_the_service_works_is_one_group(serve: Serve) -> None:
    echo, path = serve()
    with Client(path) as first, Client(path) as second, Client(path) as third:
        echo.gate.clear()
        first.send(append(1, 1))
        echo.until(lambda: len(echo.groups) == 1)
        second.send(append(2, 2), append(3, 3))
        third.send(append(4, 4))
        echo.gate.set()
        for client, count in ((first, 1), (second, 2), (third, 1)):
            for _ in range(count):
                assert isinstance(client.receive(), AppendedReply)
    assert [len(group) for group in echo.groups] == [1, 3]


def test_a_frame_that_comes_byte_by_byte_is_a_frame(serve: Serve) -> None:
    _, path = serve()
    with Client(path) as client:
        for byte in frame(append(1, 50)):
            client.socket.sendall(bytes([byte]))
        assert client.receive() == AppendedReply(1, client_result(50))


@pytest.mark.parametrize("size", [0, 1, 65536, 262144 - 30, 262144, 1_000_000, 20_000_000])
def test_frames_of_every_size_come_through_between_small_ones(serve: Serve, size: int) -> None:
    _, path = serve()
    with Client(path) as client:
        sender = threading.Thread(
            target=client.send, args=(append(1, 5), append(2, size), append(3, 6))
        )
        sender.start()
        replies = {reply.id: reply for reply in (client.receive() for _ in range(3))}
        sender.join()
    assert [replies[i] for i in (1, 2, 3)] == [
        AppendedReply(i, client_result(s)) for i, s in ((1, 5), (2, size), (3, 6))
    ]


# ---- bad clients ---------------------------------------------------------------------------------


def test_a_frame_above_the_bound_ends_its_connection_and_no_other(serve: Serve) -> None:
    _, path = serve(frame_bytes_max=1000)
    with Client(path) as good, Client(path) as bad:
        bad.send(append(1, 2000))
        assert bad.refused().code == "invalid_argument"
        assert bad.at_end()
        assert good.ask(append(2, 10)) == AppendedReply(2, client_result(10))


def test_a_length_of_four_gigabytes_is_not_believed(serve: Serve) -> None:
    _, path = serve()
    with Client(path) as bad:
        bad.socket.sendall(LENGTH.pack(0xFFFFFFFF) + b"x")
        assert bad.refused().code == "invalid_argument"
        assert bad.at_end()
    assert works(path)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        LENGTH.pack(5) + b"\xc1\xc1\xc1\xc1\xc1",
        LENGTH.pack(0),
        b"\0" * 64,
    ],
)
def test_garbage_ends_its_connection_and_no_other(serve: Serve, garbage: bytes) -> None:
    _, path = serve()
    with Client(path) as good, Client(path) as bad, Client(path, greet=False) as stranger:
        for client in (bad, stranger):
            client.socket.sendall(garbage)
            assert client.at_end()
        assert good.ask(append(2, 10)) == AppendedReply(2, client_result(10))


def test_half_a_frame_and_then_silence_is_closed_while_others_are_served(serve: Serve) -> None:
    _, path = serve(stall_s=STALL_S)
    with Client(path) as idle, Client(path) as bad:
        bad.socket.sendall(frame(append(1, 100))[:50])
        assert works(path)
        assert bad.at_end()
        # Silence between two frames is no fault, however long.
        assert idle.ask(append(2, 10)) == AppendedReply(2, client_result(10))


def test_who_never_says_hello_is_closed(serve: Serve) -> None:
    _, path = serve(stall_s=0.2)
    with Client(path, greet=False) as silent:
        assert silent.at_end()


def test_a_client_that_leaves_in_mid_request_takes_nobody_along(serve: Serve) -> None:
    echo, path = serve()
    with Client(path) as good:
        for cut in (2, 10, 60):
            client = Client(path)
            client.socket.sendall(frame(append(1, 100))[:cut])
            client.close()
        asked_and_gone = Client(path)
        echo.gate.clear()
        asked_and_gone.send(append(5, 5))
        echo.until(lambda: echo.groups)
        asked_and_gone.close()
        echo.gate.set()
        assert good.ask(append(2, 10)) == AppendedReply(2, client_result(10))
        echo.until(lambda: echo.clients == 1)


def test_a_client_that_does_not_read_is_closed_and_hurts_nobody(serve: Serve) -> None:
    echo, path = serve(stall_s=STALL_S, unsent_bytes_max=100_000)
    with Client(path) as slow:
        slow.send(*(get(i, 1_000_000) for i in range(8)))
        assert works(path)
        echo.until(lambda: echo.clients == 0)
        with pytest.raises((EOFError, ConnectionResetError)):
            for _ in range(8):
                slow.receive()
    assert works(path)


def test_a_slow_reader_that_does_read_gets_everything(serve: Serve) -> None:
    _, path = serve(unsent_bytes_max=100_000, reads_max=4)
    with Client(path) as client:
        client.send(*(get(i, 500_000) for i in range(30)))
        replies = [client.receive() for _ in range(30)]
    assert sorted(reply.id for reply in replies) == list(range(30))
    assert all(len(r.window.records) == 500_000 for r in replies if isinstance(r, WindowReply))


def test_a_connection_begins_with_hello(serve: Serve) -> None:
    echo, path = serve()
    with Client(path, greet=False) as client:
        client.send(append(1, 10))
        assert client.refused().code == "invalid_argument"
        assert client.at_end()
    assert echo.groups == []


@pytest.mark.parametrize("hello", [Hello(3, "another store"), Hello(3, STORE_ID, 99)])
def test_a_client_of_another_store_or_version_is_told_so(serve: Serve, hello: Hello) -> None:
    _, path = serve()
    with Client(path, greet=False) as client:
        client.send(hello)
        refused = client.refused()
        assert (refused.id, refused.code) == (3, "unsupported_format")
        assert client.at_end()


def test_a_first_frame_may_not_be_large(serve: Serve) -> None:
    _, path = serve()
    with Client(path, greet=False) as client:
        client.socket.sendall(LENGTH.pack(1_000_000) + b"x" * 100)
        assert client.refused().code == "invalid_argument"
        assert client.at_end()


# ---- bounds --------------------------------------------------------------------------------------


def test_more_requests_than_the_bound_are_refused_as_overload(serve: Serve) -> None:
    echo, path = serve(requests_max=10)
    with Client(path) as client:
        echo.gate.clear()
        client.send(append(0, 1))
        echo.until(lambda: echo.groups)
        client.send(*(append(i, 1) for i in range(1, 26)))
        echo.gate.set()
        replies = [client.receive() for _ in range(26)]
    refused = [r for r in replies if isinstance(r, Failure)]
    assert {r.code for r in refused} == {"overloaded"}
    assert sum(len(group) for group in echo.groups) + len(refused) == 26
    assert all(len(group) <= 10 for group in echo.groups)
    assert refused
    assert works(path)


def test_reads_of_one_connection_take_turns_with_others(serve: Serve) -> None:
    echo, path = serve(reads_max=2)
    with Client(path) as client:
        client.send(*(get(i, 10) for i in range(9)))
        assert sorted(client.receive().id for _ in range(9)) == list(range(9))
    assert max(len(group) for group in echo.groups) == 2


def test_large_frames_wait_for_each_other_and_all_arrive(serve: Serve) -> None:
    _, path = serve(large_bytes=100_000, large_bytes_max=1_000_000)
    clients = [Client(path) for _ in range(6)]
    senders = [
        threading.Thread(target=client.send, args=(append(n, 900_000),))
        for n, client in enumerate(clients)
    ]
    for sender in senders:
        sender.start()
    for n, client in enumerate(clients):
        assert client.receive() == AppendedReply(n, client_result(900_000))
        client.close()
    for sender in senders:
        sender.join()


def test_a_large_frame_that_stalls_makes_room_for_the_next(serve: Serve) -> None:
    _, path = serve(large_bytes=100_000, large_bytes_max=1_000_000, stall_s=STALL_S)
    with Client(path) as stalled, Client(path) as next_one:
        stalled.socket.sendall(frame(append(1, 900_000))[:200_000])
        sender = threading.Thread(target=next_one.send, args=(append(2, 900_000),))
        sender.start()
        assert next_one.receive() == AppendedReply(2, client_result(900_000))
        sender.join()
        assert stalled.at_end()


def test_connections_above_the_bound_are_told_so(serve: Serve) -> None:
    _, path = serve(connections_max=2)
    with Client(path), Client(path), Client(path, greet=False) as third:
        assert third.refused().code == "overloaded"
        assert third.at_end()


# ---- the service's side --------------------------------------------------------------------------


def test_an_answer_may_come_later_from_another_thread(serve: Serve) -> None:
    echo, path = serve()
    with Client(path) as client:
        client.send(info(5))
        echo.until(lambda: echo.parked)
        assert client.ask(append(6, 1)).id == 6
        pending = echo.parked[0]
        pending.reply(DoneReply(5))
        pending.reply(DoneReply(5))  # only the first counts
        assert client.receive() == DoneReply(5)
        assert client.ask(append(7, 1)).id == 7


def test_a_pending_knows_when_its_client_is_gone(serve: Serve) -> None:
    echo, path = serve()
    with Client(path) as client:
        client.send(info(5))
        echo.until(lambda: echo.parked)
        pending = echo.parked[0]
        before = pending.alive
    echo.until(lambda: echo.clients == 0)
    assert (before, pending.alive) == (True, False)
    pending.reply(DoneReply(5))
    assert works(path)


def test_the_service_is_called_when_its_deadline_comes_and_when_it_is_woken(serve: Serve) -> None:
    echo, _ = serve()
    echo.due = time.monotonic() + 0.01
    echo.wake()
    echo.until(lambda: echo.ticks == 1)


def test_a_service_that_raises_fails_its_group_and_serves_the_next(serve: Serve) -> None:
    echo, path = serve()
    with Client(path) as client:
        echo.raises = RuntimeError("a mistake")
        assert "a mistake" in client_failure(client, 1).message
        echo.raises = None
        assert client.ask(append(2, 1)).id == 2


def client_failure(client: Client, id: int) -> Failure:
    client.send(append(id, 1))
    return client.refused()


def test_the_loop_turns_for_work_and_not_for_itself(serve: Serve) -> None:
    """No busy polling: a request costs the loop a turn or two, waiting costs none."""
    echo, path = serve()
    with Client(path) as client, Client(path):
        for n in range(50):
            client.ask(append(n, 1))
    assert echo.asked_for_deadline < 50 * 2 * 3 + 50


# ---- its place -----------------------------------------------------------------------------------


def test_a_socket_left_by_a_dead_owner_is_replaced(short_path: Path) -> None:
    path = short_path / "p0.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = SocketServer(path, Echo(), store_id=STORE_ID)
    server.start("second")
    assert works(path)
    server.stop()
    assert list(short_path.iterdir()) == []


def test_stopping_leaves_a_successors_socket_alone(short_path: Path) -> None:
    path = short_path / "p0.sock"
    first = SocketServer(path, Echo(), store_id=STORE_ID)
    first.start("first")
    second = SocketServer(path, Echo(), store_id=STORE_ID)
    second.start("second")
    first.stop()
    assert works(path)
    second.stop()


def test_a_stopped_server_has_sent_what_was_answered(serve: Serve, short_path: Path) -> None:
    path = short_path / "x.sock"
    echo = Echo()
    server = SocketServer(path, echo, store_id=STORE_ID)
    server.start("stopping")
    with Client(path) as client:
        echo.gate.clear()
        client.send(append(1, 1))
        echo.until(lambda: echo.groups)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        echo.gate.set()
        assert client.receive() == AppendedReply(1, client_result(1))
        assert client.at_end()
        stopper.join(PATIENCE_S)


def test_a_forked_child_does_not_keep_the_parents_connections_open(serve: Serve) -> None:
    """A child that lives on must not hold a client's connection half open after the server has
    dropped it."""
    echo, path = serve()
    with Client(path) as client:
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(out, 1)
            os._exit(0)
        assert client.ask(append(1, 1)).id == 1
        client.socket.sendall(LENGTH.pack(0xFFFFFFFF))
        assert client.at_end()
        os.write(into, b"x")
        os.waitpid(child, 0)
        os.close(out)
        os.close(into)
    assert works(path)
    echo.until(lambda: echo.clients == 0)
