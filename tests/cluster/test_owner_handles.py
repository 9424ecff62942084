"""Handles on owners that Ray, or another thread, has let go meanwhile."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from neverforget.actors.actor_options import NAMESPACE
from neverforget.actors.handles import (
    GONE,
    IN_PIECES_MAX,
    PIECE_BYTES,
    OwnerHandle,
    pieces_of,
    stop_all,
)
from neverforget.actors.messages import Failure, Wait, encoder
from neverforget.actors.spawn import Node, spawn_partition
from neverforget.actors.under_way import UnderWay
from neverforget.runtime.operation import RequestIds
from neverforget.runtime.ray_channel import AsyncRayChannel, RayChannel
from neverforget.storage.errors import Conflict, Overloaded, Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.region import Region
from tests.actors.regions import STORE_ID, spec
from tests.cluster.processes import PATIENCE_S, until
from tests.runtime.test_retrying import append_request

SOON = 0.1  # a deadline that is meant to pass


class ForgottenMeanwhile(OwnerHandle):
    """Another thread forgets the dead actor when this one has just seen that there is one."""

    _seen: Any = None

    @property
    def _actor(self) -> Any:
        seen, self._seen = self._seen, None
        return seen

    @_actor.setter
    def _actor(self, actor: Any) -> None:
        self._seen = actor


def test_an_owner_that_another_thread_forgets_is_still_called_by_this_one() -> None:
    """Threads share a handle: who came second had no actor to call, and an AttributeError."""
    assert ForgottenMeanwhile("p0", "the actor").actor == "the actor"


def test_an_owner_that_ray_has_let_go_does_not_keep_the_others_from_ending(ray_local: Any) -> None:
    """What Ray says of such an actor has no type of its own. Whoever ended several owners was
    interrupted by it: the rest went on, and so did the lock of a host that wanted to end."""

    def gone() -> None:
        raise Exception(f"{GONE} 0123. It might be dead or it's from a different cluster")

    method = SimpleNamespace(remote=gone)
    actor = SimpleNamespace(stop=method, describe=method)
    assert stop_all([OwnerHandle("p0", actor), OwnerHandle("p1", actor)], 1.0) == ["p0", "p1"]
    assert OwnerHandle("p0", actor).is_dead(1.0)


def test_a_call_that_is_given_up_has_ended_when_ray_lets_it_go(ray_local: Any) -> None:
    """Each try at an owner that did not answer left its bytes with Ray, which kept them, and wrote
    them to a disk when they were many; and nobody knew."""

    class Silent:
        def __init__(self) -> None:
            self._freed = asyncio.Event()

        async def call(self, *pieces: bytes) -> bytes:
            await self._freed.wait()
            return b"".join(pieces)

        async def free(self) -> None:
            self._freed.set()

    actor = ray_local.remote(Silent).options(num_cpus=0, max_concurrency=10).remote()
    handle, ended = OwnerHandle("silent", actor), queue.Queue[str]()

    async def soon() -> bytes:
        async with asyncio.timeout(0.05):
            return await handle.call_async(b"x", lambda: ended.put("of a task"))

    with pytest.raises(Unavailable):
        handle.call(b"x", 0.05, ended=lambda: ended.put("of a thread"))
    with pytest.raises(TimeoutError):
        asyncio.run(soon())
    assert ended.empty()
    ray_local.get(actor.free.remote())
    assert {ended.get(), ended.get()} == {"of a task", "of a thread"}
    for size in (1, PIECE_BYTES, PIECE_BYTES + 1, IN_PIECES_MAX, IN_PIECES_MAX + 1):
        frame = bytes(range(251)) * (size // 251 + 1)
        assert handle.call(frame[:size], PATIENCE_S, ended=lambda: ended.put("")) == frame[:size]
        assert ended.get_nowait() == ""
        pieces = pieces_of(frame[:size])
        assert size > IN_PIECES_MAX or max(map(len, pieces)) <= PIECE_BYTES
    ray_local.kill(actor)


def test_calls_to_an_owner_that_does_not_answer_do_not_pile_up(ray_local: Any) -> None:
    """What was given up and asked again, of every caller, waited for the owner: it had more to do
    than time, and all its answers came too late."""
    answer = encoder.encode(Failure(0, "conflict", "an answer", {}))

    class Silent:
        def __init__(self) -> None:
            self._freed, self._taken = asyncio.Event(), 0

        async def call(self, *pieces: bytes) -> bytes:
            self._taken += 1
            await self._freed.wait()
            return answer

        async def taken(self) -> int:
            return self._taken

        async def free(self) -> None:
            self._freed.set()

    named: Any = {"name": "silent", "namespace": NAMESPACE}
    actor = ray_local.remote(Silent).options(num_cpus=0, max_concurrency=10, **named).remote()
    channel = RayChannel(("silent",), "")
    channel._ways[0] = UnderWay(calls_max=2)
    tasks, ids = AsyncRayChannel(channel), RequestIds()

    def by_thread(seconds: float) -> Any:
        return channel.call(0, append_request(ids), time.monotonic() + seconds)

    def by_task(seconds: float) -> Any:
        return asyncio.run(tasks.call(0, append_request(ids), time.monotonic() + seconds))

    for ask in (by_thread, by_task):
        told: Exception | None = None
        while not isinstance(told, Overloaded):
            with pytest.raises((Unavailable, Overloaded)) as caught:
                ask(SOON)
            told = caught.value
            assert isinstance(told, Overloaded) or getattr(told, "outcome", "") == "unknown"
    # Calls of an actor whose methods are coroutines may begin in any order.
    until(lambda: ray_local.get(actor.taken.remote()) == 2, "both to be taken")
    with pytest.raises(Unavailable):  # who waits for what others say goes by
        channel.call(0, Wait(0, (), "s", 0, 60_000), time.monotonic() + SOON)
    assert ray_local.get(actor.taken.remote()) == 3
    ray_local.get(actor.free.remote())
    for ask in (by_thread, by_task):
        with pytest.raises(Conflict, match="an answer"):
            ask(PATIENCE_S)
    channel.close()
    ray_local.kill(actor)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nobody_waits_behind_calls_to_an_owner_that_was_moved(
    ray_local: Any, asynchronous: bool
) -> None:
    """What it has not answered may never end: it is stopped, or cut off."""
    answer = encoder.encode(Failure(0, "conflict", "an answer", {}))

    class Owner:
        def __init__(self, answers: bool) -> None:
            self._answers = answers

        async def call(self, *pieces: bytes) -> bytes:
            if not self._answers:
                await asyncio.Event().wait()
            return answer

    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 10, "namespace": NAMESPACE}
    actors = [
        ray_local.remote(Owner).options(name=name, **options).remote(name == "new")
        for name in ("old", "new")
    ]
    channel = RayChannel(("old",), "")
    way = channel._ways[0] = UnderWay(calls_max=1)
    ids, told = RequestIds(), queue.Queue[Exception]()
    with pytest.raises(Unavailable):
        channel.call(0, append_request(ids), time.monotonic() + SOON)

    def ask() -> None:
        until_s = time.monotonic() + PATIENCE_S
        try:
            if asynchronous:
                asyncio.run(AsyncRayChannel(channel).call(0, append_request(ids), until_s))
            else:
                channel.call(0, append_request(ids), until_s)
        except Exception as error:
            told.put(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: way._waiting, "somebody to wait")
    channel.rename({0: "new"})
    asking.join()
    assert isinstance(told.get_nowait(), Conflict)
    channel.close()
    for actor in actors:
        ray_local.kill(actor)


def test_an_owner_that_was_left_behind_under_its_name_is_replaced(
    ray_local: Any, short_path: Path
) -> None:
    """A host that could not reach Ray's head ended its owners by signal, Ray started them again,
    and the next host found their names taken for ever: the store did not come back."""
    directory = short_path / "p0"
    directory.mkdir()
    Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0)
    settled = spec(
        directory, role="worker", name="left-over-p0", socket=str(short_path / "p0.sock")
    )
    node = Node(ray_local.get_runtime_context().get_node_id(), {})
    left_over = spawn_partition(settled, node)
    before = until(left_over.pid, "an owner")
    owner = spawn_partition(settled, node)
    until(lambda: owner.pid() not in (None, before), "the next one")
    assert stop_all([owner], PATIENCE_S) == []
