"""AsyncStore and AsyncSession: the same calls on an event loop."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.async_channel import AsyncSocketChannel
from tests.fakes.plain_host import PlainHost
from tests.runtime.conftest import SMALL, seqs


@pytest.fixture(params=["inline", "attached"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[nf.aio.AsyncStore]:
    if request.param == "inline":
        path: Path = request.getfixturevalue("tmp_path") / "store"
        opened = await nf.aio.open(path, inline=True, agent="ada", **SMALL)
    else:
        host: PlainHost = request.getfixturevalue("host")
        opened = await nf.aio.open(host.store.path, host="never", agent="ada")
    async with opened:
        yield opened


@pytest.fixture
async def attached(host: PlainHost) -> AsyncIterator[nf.aio.AsyncStore]:
    async with await nf.aio.open(host.store.path, host="never", agent="ada") as opened:
        yield opened


async def collected(iterator: AsyncIterator[nf.Turn]) -> list[nf.Turn]:
    return [turn async for turn in iterator]


def public(cls: type) -> dict[str, Any]:
    return {n: v for n, v in inspect.getmembers(cls) if not n.startswith("_")}


@pytest.mark.parametrize(
    ("plain", "on_loop", "extra"),
    [(nf.Store, nf.aio.AsyncStore, set()), (nf.Session, nf.aio.AsyncSession, {"count"})],
)
def test_the_twins_have_the_same_names_and_arguments(
    plain: type, on_loop: type, extra: set[str]
) -> None:
    assert set(public(on_loop)) - extra == set(public(plain))
    stay_plain = {"session", "scoped", "follow", "working_memory"}
    for name, member in public(plain).items():
        if not inspect.isfunction(member):
            continue
        twin = public(on_loop)[name]
        arguments = list(inspect.signature(member).parameters.values())
        twins = list(inspect.signature(twin).parameters.values())
        assert [(p.name, p.kind, p.default) for p in arguments] == [
            (p.name, p.kind, p.default) for p in twins
        ], name
        assert inspect.iscoroutinefunction(twin) == (name not in stay_plain), name
        assert member.__doc__ and twin.__doc__, name
    opens = [inspect.signature(f) for f in (nf.open, nf.aio.open)]
    assert list(opens[0].parameters) == list(opens[1].parameters)


async def test_a_conversation_on_a_loop(store: nf.aio.AsyncStore) -> None:
    chat = store.session("chat", namespace="n")
    first = await chat.append("user", {"a": 1}, key="k")
    assert await chat.append("user", {"a": 1}, key="k") == first
    turns = await chat.append_many([{"role": "assistant", "content": n} for n in range(9)])
    assert seqs(turns) == list(range(1, 10))
    assert await chat.count() == 10 and bool(chat)
    assert await chat.get(0) == first == await chat[0] and (await chat[-1]).seq == 9
    assert seqs(await chat[2:4]) == [2, 3]
    assert await chat.get(10, None) is None
    with pytest.raises(nf.NotFound):
        await chat.get(10)
    assert seqs(await chat.tail(3)) == [7, 8, 9]
    page = await chat.page(limit=4)
    assert seqs(page) == [0, 1, 2, 3] and page.has_more
    assert seqs(await collected(aiter(chat))) == list(range(10))
    await chat.hide([1, 2])
    await chat.unhide(1)
    branch = await chat.fork("branch", at=3)
    assert isinstance(branch, nf.aio.AsyncSession)
    await branch.append("user", "own")
    assert seqs(await collected(aiter(branch))) == [0, 1, 3]
    with pytest.raises(nf.ConfirmationRequired):
        await chat.erase(0)
    assert (await chat.erase(0, confirm=nf.CONFIRMED)).turns == 1
    assert (await chat.info()).turns == 10
    assert {info.session for info in await store.sessions()} == {"chat", "branch"}
    assert (await store.namespaces()).items == (("n",),)
    operations = [entry.operation for entry in await store.audit(target=chat)]
    assert operations == ["hide", "unhide", "forget-refused", "erase"]
    assert (await store.settle()).turns == 11 and (await store.verify()).ok
    assert (await store.status()).sessions == 2


async def test_arguments_are_checked_alike(store: nf.aio.AsyncStore) -> None:
    chat = store.session("chat")
    for call in (chat.tail(limit=0), chat.page(after="x"), chat.append("", "x"), chat.hide(-1)):
        with pytest.raises(nf.InvalidArgument):
            await call
    with pytest.raises(nf.InvalidArgument):
        chat.follow(after="x")
    with pytest.raises(nf.InvalidArgument):
        await nf.aio.open("")


async def test_followers_on_a_loop(store: nf.aio.AsyncStore) -> None:
    chat = store.session("chat")
    await chat.append("user", 0)
    started = asyncio.Event()

    async def follow() -> list[Any]:
        seen = []
        async for turn in chat.follow():
            seen.append(turn.content)
            started.set()
            if turn.content == 3:
                return seen
        return seen

    async with asyncio.timeout(60):
        # More of them than there are worker threads: waiting takes none.
        followers = [asyncio.create_task(follow()) for _ in range(50)]
        await started.wait()
        for n in (1, 2, 3):
            await chat.append("user", n)
        assert await asyncio.gather(*followers) == [[0, 1, 2, 3]] * 50


async def test_two_hundred_tasks_race_to_open_and_all_get_a_live_handle(host: PlainHost) -> None:
    async def one(n: int) -> int:
        async with await nf.aio.open(host.store.path, host="never") as store:
            return (await store.session("chat").append("user", n)).seq

    assert sorted(await asyncio.gather(*(one(n) for n in range(200)))) == list(range(200))


async def test_calls_over_sockets_use_no_threads(attached: nf.aio.AsyncStore) -> None:
    chat = attached.session("chat")
    await chat.append("user", "x")
    await attached.settle()  # the owners live in this process, and have threads of their own
    before = set(threading.enumerate())
    await asyncio.gather(*(chat.append("user", n) for n in range(200)))
    await chat.tail()
    await attached.status()
    started = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in started if not name.startswith("keeper-")], "owners have two"
    assert sorted(str(t.content) for t in (await chat[1:])) == sorted(map(str, range(200)))


async def test_a_cancelled_call_does_not_disturb_the_others(attached: nf.aio.AsyncStore) -> None:
    chat = attached.session("chat")
    await chat.info()
    channel = attached._lease.channel_here(asyncio.get_running_loop())
    assert isinstance(channel, AsyncSocketChannel)
    conversation = channel._conversations[chat._place.partition]
    waiting = asyncio.ensure_future(anext(chat.follow()))
    while not conversation.waiting:  # noqa: ASYNC110 - nothing tells that it has been sent
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await chat.append("user", "x")).seq == 0


async def test_owners_that_restart_are_found_again(
    host: PlainHost, attached: nf.aio.AsyncStore
) -> None:
    chat = attached.session("chat")
    for n in range(4):
        assert (await chat.append("user", n)).seq == n
        for number in range(SMALL["partitions"]):
            await asyncio.to_thread(host.stop_owner, number)
            await asyncio.to_thread(host.start_owner, number)
    assert seqs(await collected(aiter(chat))) == [0, 1, 2, 3]


async def test_large_frames_cross_in_pieces(attached: nf.aio.AsyncStore) -> None:
    chat = attached.session("chat")
    contents = [f"{n}" * 3_000_000 for n in range(3)]
    for content in contents:
        await chat.append("user", content, token_count=1)
    assert [turn.content for turn in await chat.tail(3)] == contents


async def test_a_store_shared_by_both_kinds_of_handles(host: PlainHost) -> None:
    with nf.open(host.store.path, host="never") as plain:
        async with await nf.aio.open(host.store.path, host="never") as store:
            await store.session("chat").append("user", "a")
            plain.session("chat").append("user", "b")
            assert seqs(await store.session("chat").tail()) == [0, 1]
        with pytest.raises(nf.StoreClosed):
            await store.sessions()
        assert len(plain.session("chat")) == 2


def test_one_handle_on_two_loops(host: PlainHost) -> None:
    async def opened() -> nf.aio.AsyncStore:
        store = await nf.aio.open(host.store.path, host="never")
        await store.session("chat").append("user", "first loop")
        return store

    with asyncio.Runner() as first, asyncio.Runner() as second:
        store = first.run(opened())
        assert second.run(store.session("chat").append("user", "second loop")).seq == 1
        assert first.run(store.session("chat").count()) == 2
        second.run(store.close())
        first.run(asyncio.sleep(0))


def test_handles_pickle_and_copy(host: PlainHost) -> None:
    async def main() -> None:
        async with await nf.aio.open(host.store.path, host="never", agent="ada") as store:
            chat = store.session("chat", namespace="n")
            await chat.append("user", "x")
            for made in (pickle.loads(pickle.dumps(store)), copy.copy(store), copy.deepcopy(store)):
                assert repr(made) == repr(store)
                async with made:
                    assert await made.session("chat", namespace="n").count() == 1
            for session in (pickle.loads(pickle.dumps(chat)), copy.deepcopy(chat)):
                assert repr(session) == repr(chat)
                async with session:
                    assert await session.count() == 1
        await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
