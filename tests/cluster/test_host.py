"""Hosting inside a Ray that the caller has started: owners as actors, watched and started again."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.greeting import ask, greet
from neverforget.actors.handles import OwnerHandle
from neverforget.actors.host_messages import HostReply, HostStatus
from neverforget.actors.messages import (
    AppendedReply,
    Info,
    SessionReply,
    Status,
    StatusReply,
    encoder,
    reply_decoder,
)
from neverforget.runtime.config import Config
from neverforget.runtime.endpoint import read_endpoint
from neverforget.runtime.host import Host
from neverforget.runtime.opening import attach
from neverforget.storage.directory_lock import ProcessId, start_time, this_process
from neverforget.storage.errors import StoreLocked, Unavailable
from tests.actors.regions import NAMESPACE, append
from tests.cluster.processes import PATIENCE_S, QUICK, attached, end_host, until, until_gone


@pytest.fixture
def host(ray_local: Any, short_path: Path) -> Iterator[Host]:
    """A store hosted in this process's Ray, with an impatient watchdog."""
    found = Host.start(short_path / "a store", Config(), role="application", health=QUICK)
    yield found
    found.close()


def owner_pid(host: Host, partition: int = 0) -> int:
    """The process that owns the partition, once it answers and serves."""

    def look() -> int | None:
        try:
            connection, welcome = greet(host.endpoint.sockets[partition], host.store.store_id, 1.0)
        except OSError:
            return None
        connection.close()
        return welcome.pid if welcome.state == "serving" else None

    pid: int = until(look, f"an owner of partition {partition}")
    return pid


def next_owner(host: Host, old: int) -> int:
    until(lambda: owner_pid(host) != old, "another owner")
    return owner_pid(host)


def append_turn(host: Host, number: int, partition: int = 0) -> Any:
    connection, _ = greet(host.endpoint.sockets[partition], host.store.store_id, PATIENCE_S)
    with connection:
        return ask(connection, append(number), PATIENCE_S)


def turns(host: Host) -> int:
    connection, _ = greet(host.endpoint.sockets[0], host.store.store_id, PATIENCE_S)
    with connection:
        reply = ask(connection, Info(1, NAMESPACE, "s"), PATIENCE_S)
    assert isinstance(reply, SessionReply)
    return reply.session.turns


def restarts(host: Host) -> int:
    connection, _ = greet(host.endpoint.sockets[0], host.store.store_id, PATIENCE_S)
    with connection:
        reply = ask(connection, Status(1), PATIENCE_S)
    assert isinstance(reply, StatusReply) and reply.region is not None
    return reply.region.restarts


def status(host: Host) -> HostReply:
    connection, _ = greet(host.endpoint.control, host.store.store_id, PATIENCE_S)
    with connection:
        reply = ask(connection, HostStatus(1), PATIENCE_S)
    assert isinstance(reply, HostReply)
    return reply


def test_owners_are_actors_of_this_ray_and_serve_sockets(host: Host) -> None:
    assert host.endpoint.kind == "application"
    assert host.endpoint.pid == os.getpid()
    assert owner_pid(host, 0) != owner_pid(host, 1) != os.getpid()
    assert isinstance(append_turn(host, 1), AppendedReply)
    assert turns(host) == 1


def test_a_killed_owner_is_started_again_and_nothing_acknowledged_is_lost(host: Host) -> None:
    old = owner_pid(host)
    for number in range(20):
        append_turn(host, number)
    os.kill(old, signal.SIGKILL)
    next_owner(host, old)
    assert turns(host) == 20
    repeated = append_turn(host, 19)
    assert len(repeated.result.existing) == 1
    assert turns(host) == 20


def test_a_stopped_owner_is_replaced(host: Host) -> None:
    """Ray never notices a worker that hangs."""
    old = owner_pid(host)
    append_turn(host, 1)
    process = ProcessId(old, start_time(old))
    until(lambda: status(host).owners[0].pid == old, "the watchdog knows the owner")
    os.kill(old, signal.SIGSTOP)
    until_gone(process)
    next_owner(host, old)
    assert turns(host) == 1
    assert restarts(host) == 1


def test_an_owner_that_ray_was_told_to_give_up_is_started_anew(host: Host, ray_local: Any) -> None:
    """Anybody on the cluster may ``ray.kill`` a named actor, for good as far as Ray goes."""
    old = owner_pid(host)
    process = ProcessId(old, start_time(old))
    append_turn(host, 1)
    ray_local.kill(ray_local.get_actor(host.endpoint.actors[0], namespace="neverforget"))
    until_gone(process)
    next_owner(host, old)
    assert turns(host) == 1


def test_the_hosts_socket_tells_who_owns_what(host: Host) -> None:
    pids = [owner_pid(host, n) for n in range(2)]
    expected = [(pid, "serving") for pid in pids]
    until(lambda: [(o.pid, o.state) for o in status(host).owners[:2]] == expected, "what it sees")
    # Nothing is to be embedded, so no embedder was started.
    assert [o.name.rpartition("-")[2] for o in status(host).owners[2:]] == ["lt0"]
    found = status(host)
    assert (found.pid, found.role, found.linger_s) == (os.getpid(), "application", None)
    sockets = [*host.endpoint.sockets, host.endpoint.longterm]
    assert [owner.socket for owner in found.owners] == sockets


def test_an_owner_answers_calls_from_other_nodes(host: Host, ray_local: Any) -> None:
    @ray_local.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def elsewhere(handle: OwnerHandle, frame: bytes) -> bytes:
        return handle.call(frame, PATIENCE_S)

    handle = OwnerHandle(host.endpoint.actors[0])
    reply = ray_local.get(elsewhere.remote(handle, encoder.encode(append(5))))
    assert isinstance(reply_decoder.decode(reply), AppendedReply)
    garbage = reply_decoder.decode(handle.call(b"\xc1", PATIENCE_S))
    assert getattr(garbage, "code", None) == "invalid_argument"
    with pytest.raises(Unavailable):
        OwnerHandle("nobody").call(b"", 1.0)


def test_a_region_that_is_gone_is_quarantined_and_the_other_serves(
    ray_local: Any, short_path: Path
) -> None:
    path = short_path / "store"
    Host.start(path, Config(), role="application").close()
    (path / "regions" / "p0").rename(path / "elsewhere")
    host = Host.start(path, Config(), role="application", health=QUICK)
    try:
        expected = ["quarantined", "serving"]
        until(lambda: [o.state for o in status(host).owners[:2]] == expected, "what it sees")
        with pytest.raises(Exception, match="quarantined"):
            append_turn(host, 1)
        assert isinstance(append_turn(host, 1, partition=1), AppendedReply)
        assert not (path / "regions" / "p0").exists()
    finally:
        host.close()


def test_closing_gives_everything_back_and_leaves_ray_alone(
    ray_local: Any, short_path: Path
) -> None:
    path = short_path / "store"
    first = Host.start(path, Config(), role="application")
    append_turn(first, 1)
    pids = [owner_pid(first, n) for n in range(2)]
    processes = [ProcessId(pid, start_time(pid)) for pid in pids]
    first.close()
    first.close()
    assert ray_local.is_initialized()
    assert read_endpoint(path) is None
    for process in processes:
        until_gone(process)
    assert list((path / "regions" / "p0" / "log").glob("*.heads"))
    again = Host.start(path, Config(), role="application")
    assert turns(again) == 1
    again.close()


def test_a_store_has_one_host(host: Host) -> None:
    with pytest.raises(StoreLocked) as caught:
        Host.start(host.store.path, Config(), role="application")
    assert caught.value.pid == os.getpid()


# ---- attaching in a process that has Ray ---------------------------------------------------------


def test_a_ray_driver_hosts_what_it_attaches_to_until_its_last_handle(
    ray_local: Any, short_path: Path
) -> None:
    path = short_path / "store"
    first = attach(path)
    second = attach(path)
    assert first.endpoint.kind == "application"
    assert first.endpoint.pid == os.getpid()
    assert attached(path, "never")["pid"] == os.getpid()
    first.close()
    assert attached(path, "never")["heavy"] == []
    second.close()
    assert read_endpoint(path) is None
    assert ray_local.is_initialized()


def test_threads_that_attach_at_once_share_one_host(ray_local: Any, short_path: Path) -> None:
    path = short_path / "store"
    barrier = threading.Barrier(20)
    found = []

    def one() -> None:
        barrier.wait()
        found.append(attach(path, wait=PATIENCE_S))

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.endpoint.pid for a in found} == {os.getpid()}
    for attachment in found:
        attachment.close()
    assert read_endpoint(path) is None


def test_tasks_attach_to_the_drivers_host_and_never_host_themselves(
    ray_local: Any, short_path: Path
) -> None:
    @ray_local.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def task(path: str, host: str) -> tuple[str, int]:
        from neverforget.runtime.opening import attach as attach_here

        attachment = attach_here(path, host=host, wait=120.0)  # type: ignore[arg-type]
        try:
            return attachment.endpoint.kind, attachment.endpoint.pid
        finally:
            attachment.close()

    attachment = attach(short_path / "store")
    refs = [task.remote(str(attachment.path), host) for host in ("auto", "never") * 5]
    assert set(ray_local.get(refs)) == {("application", os.getpid())}
    attachment.close()


def test_a_task_that_finds_no_host_starts_one_that_outlives_it(
    ray_local: Any, short_path: Path
) -> None:
    """An owner inside a task would end with the task; and Ray kills the children of its workers."""

    @ray_local.remote(num_cpus=0, max_calls=1)  # type: ignore[untyped-decorator]
    def task(path: str) -> tuple[str, ProcessId]:
        from neverforget.runtime.opening import attach as attach_here

        attachment = attach_here(path, wait=120.0)
        return attachment.endpoint.kind, this_process()

    path = short_path / "store"
    kind, worker = ray_local.get(task.remote(str(path)))
    assert kind == "serve"
    until_gone(worker)
    assert attached(path, "never")["kind"] == "serve"
    end_host(path)


def test_a_copy_of_a_store_is_another_store_to_ray(ray_local: Any, short_path: Path) -> None:
    original, copy = short_path / "store", short_path / "copy"
    Host.start(original, Config(partitions=1), role="application").close()
    shutil.copytree(original / "regions", copy / "regions")
    for name in ("IDENTITY", "store.toml"):
        shutil.copy(original / name, copy / name)
    one = Host.start(original, Config(), role="application")
    two = Host.start(copy, Config(), role="application")
    assert one.store.store_id == two.store.store_id
    append_turn(one, 1)
    assert (turns(one), turns(two)) == (1, 0)
    one.close()
    two.close()


def test_the_next_host_comes_up_here_when_the_old_one_has_ended(
    ray_local: Any, short_path: Path
) -> None:
    """A handle that outlives the host of another process becomes the host."""
    path = short_path / "store"
    first = Host.start(path, Config(), role="application")
    attachment = attach(path)
    assert attachment._hosting is None
    first.close()
    assert attachment.refresh().pid == os.getpid()
    assert attachment._hosting is not None
    attachment.close()
    assert read_endpoint(path) is None
